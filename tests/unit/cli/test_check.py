"""`windlass check` validates its command line before it connects to a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from windlass.cli.main import app
from windlass.environments.probe import network_probe
from windlass.environments.probe.enforcement import DirectionResult
from windlass.environments.probe.network_probe import ProbeResult

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
"""


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], "--network-probe"),
        (["--network-probe"], "--image"),
        (["--network-probe", "--image=x", "--output=yaml"], "text or json"),
        (["--network-probe", "--image=x", "--timeout=soon"], "90s"),
        (["--network-probe", "--image=x", "--timeout=1h"], "10m"),
        (["--network-probe", "--image=x", "--timeout=9s"], "10s"),
    ],
)
def test_a_wrong_command_line_exits_with_two(flags: list[str], expected: str) -> None:
    """The message names the correct flag."""
    result = CliRunner().invoke(app, ["check", *flags])
    assert result.exit_code == 2
    assert expected in result.output


def test_no_terminal_obeys_the_log_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters in progress and result are printed as escapes."""

    class Probe:
        def __init__(self, *_: object, report: Callable[[str], None], **__: Any) -> None:
            self._report = report

        async def run(self) -> ProbeResult:
            self._report("cannot delete \x1b[2J")
            result = DirectionResult("ingress", "Inconclusive", "the pod ended: \x1b]0;owned\x07")
            return ProbeResult((result,), {"server": "n"}, ())

    monkeypatch.setattr(network_probe, "NetworkProbe", Probe)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    flags = ["--network-probe", "--image=x", f"--kubeconfig={kubeconfig}"]
    result = CliRunner().invoke(app, ["check", *flags])
    assert result.exit_code == 1
    assert "cannot delete \\u001b[2J" in result.output
    assert "the pod ended: \\u001b]0;owned\\u0007" in result.output
    assert "\x1b" not in result.output
