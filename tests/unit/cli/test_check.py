"""`windlass check` validates its command line before it connects to a cluster."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from windlass.cli.main import app


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
