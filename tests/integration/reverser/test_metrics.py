"""Every metric of the table is recorded by a running operator, and none outlives its cause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import widgets
from tests.support.central import central, configured
from tests.support.gitserver import Served, commit_files
from tests.support.left_over import left_over
from tests.support.mirrored import Mirrored
from tests.support.operator import Operator, eventually
from tests.support.people import admin_of, swift, swift_person
from tests.support.widgets import Widgets
from windlass.dev.desk import Desk
from windlass.telemetry import metrics
from windlass.telemetry.series import Spread

pytestmark = [pytest.mark.cluster, pytest.mark.scenario("A110")]

ELSEWHERE = {
    "gitopsreverser_kv_evictions_total": "records are kept for a minute; their tests evict them",
    "windlass_mirror_snapshot_incomplete_total": "needs an API server that breaks a list",
    "windlass_mirror_watch_restarts_total": "a clean end of a watch is no restart",
    "windlass_mirror_watch_lag_seconds": "zero unless a change waits at the moment of the look",
    "windlass_queue_depth": "zero unless a key waits at the moment of the look",
    "gitopsreverser_repo_branch_queue_depth": "zero unless a change waits at that moment",
}
"""What a healthy run leaves at zero, and why."""


@pytest.fixture
def mirrored(mirrored: Mirrored) -> Mirrored:
    """A namespace whose administrator acts by HTTPS."""
    return swift(mirrored)


@pytest.fixture
def platform(cluster: Desk, operator: Operator, git_host: Served) -> Iterator[Mirrored]:
    """A repository that cluster rules may feed."""
    del operator
    with central(cluster, git_host) as found:
        yield found


def _silent(operator: Operator) -> set[str]:
    """Declared metrics that show no value but zero."""
    return {
        line.name
        for line in metrics.table()
        if not operator.metric(f"{line.name}_count" if line.kind is Spread else line.name)
    }


def _live_a_little(mirrored: Mirrored, operator: Operator) -> None:
    """Creates, updates, deletions, foreign pushes, and a claim in the way."""
    claim = "claim: v1\ncluster: other\ndestination: a/b\nemitter: e1\nlayout: seed\n"
    commit_files(mirrored.path, {"taken/.windlass-claim": claim})
    gone = mirrored.config_map("gone", a="1")
    left_over(mirrored, gone, plurals={"ConfigMap": "configmaps"})
    mirrored.configured({"resources": ["configmaps", "deployments"]})
    alice = swift_person(mirrored, "alice")
    for number in range(12):
        alice.apply(mirrored.config_map("busy", value=str(number)))
    eventually(lambda: 'value: "11"' in mirrored.file(_path(mirrored, "busy")), "the last update")
    number = 0
    while not operator.metric("gitopsreverser_rebase_retries_total"):
        number += 1
        assert number < 10, "every change came after a look at the foreign tip"
        commit_files(mirrored.path, {"README.md": f"pushed by somebody else: {number}\n"})
        alice.apply(mirrored.config_map("after", a=str(number)))
        wanted = f'a: "{number}"'
        eventually(
            lambda wanted=wanted: wanted in mirrored.file(_path(mirrored, "after")),
            "a change on the foreign tip",
        )
    alice.apply(mirrored.config_map("after", a="last"))
    alice.delete("configmap", "after")
    eventually(lambda: _path(mirrored, "after") not in mirrored.files(), "the removal")
    second = mirrored.git_destination({"baseFolder": "taken"})
    second["metadata"]["name"] = "second"
    mirrored.admin.apply(second)
    mirrored.await_condition("gitdestination", "second", "FolderClaimed")


def _path(mirrored: Mirrored, name: str) -> str:
    return f"v1/configmaps/{mirrored.namespace}/{name}.yaml"


def _write_only_status(mirrored: Mirrored) -> None:
    person = admin_of(mirrored)
    pod = {"containers": [{"name": "web", "image": "registry.invalid/web"}]}
    labels = {"app": "web"}
    person.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": mirrored.namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )


def test_every_metric_is_recorded(
    mirrored: Mirrored, platform: Mirrored, operator: Operator
) -> None:
    """After a busy minute no declared metric is silent but those that must be."""
    _live_a_little(mirrored, operator)
    _write_only_status(mirrored)
    # Changes in the install namespace have no witness, so nobody can be credited.
    configured(platform, {"scope": "Namespaced", "resources": ["configmaps"]})
    platform.admin.apply(platform.config_map("unseen", a="1"))
    unseen = "v1/configmaps/windlass-system/unseen.yaml"
    eventually(lambda: unseen in platform.files(), "the change nobody witnessed")
    admin_of(platform).delete("configmap", "unseen")
    _break_a_stream(mirrored)
    eventually(
        lambda: _silent(operator) <= ELSEWHERE.keys(),
        f"all recorded (silent: {_silent(operator) - ELSEWHERE.keys()})",
    )
    assert ELSEWHERE.keys() <= {line.name for line in metrics.table()}


def _break_a_stream(mirrored: Mirrored) -> None:
    """The API server ends the watches of a definition that gains a version."""
    wanted = Widgets(widgets.unique_group())
    with widgets.defined(admin_of(mirrored), wanted):
        mirrored.admin.apply(mirrored.watch_rule({"resources": ["widgets"]}))
        eventually(lambda: _streams(mirrored) == ["synced"], "the stream synced")
        more = Widgets(wanted.group, versions=("v1", "v1beta1"))
        mirrored.admin.apply(more.definition())
        mirrored.admin.apply(wanted.one(mirrored.namespace, "one", spec={"size": 1}))
        path = wanted.file(mirrored.namespace, "one")
        eventually(lambda: path in mirrored.files(), "the object after the break")


def _streams(mirrored: Mirrored) -> list[str]:
    status = mirrored.admin.get("watchrule", "rule").get("status", {})
    return [row["state"] for row in status.get("resolved", ()) if "widgets" in row["gvr"]]


def test_series_of_a_deleted_destination_vanish(mirrored: Mirrored, operator: Operator) -> None:
    """While it lives its state is a series; afterwards nothing names it."""
    mirrored.configured({"resources": ["configmaps"]})
    label = f'destination_namespace="{mirrored.namespace}"'
    eventually(
        lambda: [row.rpartition(" ")[2] for row in _with(operator, label)] == ["1.0", "1.0"],
        "both series at one",
    )
    assert sorted(row.partition("{")[0] for row in _with(operator, label)) == [
        "windlass_mirror_remote_reachable",
        "windlass_mirror_sync_complete",
    ]
    admin_of(mirrored).delete("gitdestination", "destination")
    eventually(lambda: not _with(operator, label), "the series gone")


def _with(operator: Operator, label: str) -> list[str]:
    return [line for line in operator.metrics().splitlines() if label in line]


def test_gauges_return_to_zero(mirrored: Mirrored, operator: Operator) -> None:
    """When everything is pushed, nothing waits anywhere."""
    mirrored.configured({"resources": ["configmaps"]})
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    eventually(mirrored.files, "the file")
    for gauge in ("gitopsreverser_repo_branch_queue_depth", "windlass_mirror_watch_lag_seconds"):
        eventually(lambda gauge=gauge: operator.metric(gauge) == 0.0, f"{gauge} is zero")
    synced = 'windlass_mirror_watch_streams{state="synced"}'
    eventually(lambda: operator.metric(synced) >= 1.0, "the stream counted")
