"""`windlass check` says what it wants before it asks a cluster anything."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from windlass.cli.main import app


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "--network-probe"),
        (["--network-probe"], "--image"),
        (["--network-probe", "--image=x", "--output=yaml"], "text or json"),
        (["--network-probe", "--image=x", "--timeout=soon"], "90s"),
        (["--network-probe", "--image=x", "--timeout=1h"], "10m"),
        (["--network-probe", "--image=x", "--timeout=9s"], "10s"),
    ],
)
def test_a_wrong_command_line_exits_with_two(flags: list[str], told: str) -> None:
    """The message names what to write instead."""
    result = CliRunner().invoke(app, ["check", *flags])
    assert result.exit_code == 2
    assert told in result.output
