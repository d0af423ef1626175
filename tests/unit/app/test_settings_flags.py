"""Settings as options of a command."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tests.support.processes import written_settings
from windlass.app.settings import TABLE, Settings
from windlass.app.settings_flags import accepts_settings
from windlass.base.errors import Fatal

seen: list[tuple[str, Settings]] = []
app = typer.Typer()


@app.command()
@accepts_settings
def run(settings: Settings, name: Annotated[str, typer.Option("--name")] = "dev") -> None:
    """Receive settings."""
    seen.append((name, settings))


def invoke(*arguments: str, environment: dict[str, str] | None = None) -> Settings:
    """The settings that the command received."""
    seen.clear()
    result = CliRunner().invoke(app, list(arguments), env=environment or {}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0][1]


def test_command_without_options_gets_the_defaults() -> None:
    """No option at all means the table's defaults, and the command's own options stay."""
    assert invoke() == Settings()
    invoke("--name", "other")
    assert seen[0][0] == "other"


def test_flags_reach_the_settings() -> None:
    """Values, switches, repeated flags have their types."""
    settings = invoke(
        "--discovery-refresh",
        "90s",
        "--no-leader-elect",
        "--watch-all",
        "--discovery-exclude=events",
        "--discovery-exclude=pods",
    )
    assert settings.discovery_refresh == 90.0
    assert (settings.leader_elect, settings.watch_all) == (False, True)
    assert settings.discovery_exclude == ("events", "pods")


def test_flag_wins_over_variable() -> None:
    """The command reads variables, and a flag hides them."""
    environment = {"WINDLASS_PAGE_SIZE": "7", "WINDLASS_LEADER_ELECT": "false"}
    settings = invoke("--page-size=8", environment=environment)
    assert (settings.page_size, settings.leader_elect) == (8, False)


def test_a_bad_flag_is_reported() -> None:
    """A value out of bounds names the flag."""
    with pytest.raises(Fatal, match="flag --page-size: invalid value '0'"):
        invoke("--page-size=0")


def test_written_flags_are_understood() -> None:
    """Flags that settings are written as give the same settings back."""
    settings = Settings(leader_elect=False, cluster_uid="a-b", discovery_exclude=("a", "b"))
    assert invoke(*written_settings.as_flags(settings)) == settings


def test_help_names_every_setting() -> None:
    """Help lists each flag with its default."""
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    for line in TABLE:
        assert line.flag in text
    assert "(default 5m)" in text
