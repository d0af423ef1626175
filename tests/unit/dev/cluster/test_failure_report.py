"""How the failure of a cluster to start is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass_dev.cluster import failure_report
from windlass_dev.cluster.failure_report import LogTail


def _messages(*lines: str) -> LogTail:
    return LogTail("kubelet", Path("/state/dev/logs/kubelet.log"), lines)


def test_a_report_has_component_messages_log_and_remedy() -> None:
    """In that order, and the messages as they are in the log."""
    fault = failure_report.component_failed(
        "kubelet of cluster 'dev' ended", "dev", [_messages("one", "two")]
    )
    assert fault.message.splitlines() == [
        "kubelet of cluster 'dev' ended.",
        "kubelet log (/state/dev/logs/kubelet.log):",
        "    one",
        "    two",
        "Remedy: recreate it with `windlass dev down --name dev`, then `up`; "
        "if that fails, see the log.",
    ]


def test_other_dead_components_follow() -> None:
    """The one that was waited for is often not the cause."""
    dead = LogTail("etcd", Path("/state/dev/logs/etcd.log"), ["disk quota exceeded"])
    fault = failure_report.component_failed("kubelet ended", "dev", [_messages("one"), dead])
    assert fault.message.index("kubelet log (") < fault.message.index("etcd log (")
    assert "the disk is full" in fault.message


def test_long_lines_are_cut_and_the_last_is_never_left_out() -> None:
    """A component may print all of its settings in one line."""
    fault = failure_report.component_failed(
        "it ended", "dev", [_messages("x" * 100_000, "the reason")]
    )
    assert "    the reason" in fault.message
    assert len(fault.message) < 2000


def test_an_error_is_reported_despite_later_lines() -> None:
    """Later log lines do not hide it."""
    lines = ["E1116 07:22:44.1 1 cri.go:1] it broke", *(f"I1116 fine {n}" for n in range(50))]
    relevant = failure_report.relevant_lines(lines)
    assert relevant[0] == lines[0]
    assert relevant[1:] == lines[-8:]


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            'failed to create fsnotify watcher: too many open files"',
            "sysctl fs.inotify.max_user_instances",
        ),
        ("accept: too many open files", "ulimit -n"),
        ("write: no space left on device", "disk is full"),
        ("fork: resource temporarily unavailable", "process ids"),
        ("listen tcp 10.212.0.2:6443: bind: address already in use", "another program"),
        ("open /dev/kmsg: operation not permitted", "this machine does not permit it"),
    ],
)
def test_known_causes_have_a_remedy(line: str, advice: str) -> None:
    """The component's message is turned into an action."""
    assert advice in failure_report.advice("dev", [_messages(line)])


def test_an_empty_log_is_reported_too() -> None:
    """A component that was killed logs nothing."""
    assert "(empty)" in failure_report.component_failed("it ended", "dev", [_messages()]).message
