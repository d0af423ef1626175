"""The command line as a whole."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest
import typer
import typer.main

from windlass.cli import main as command_line

COMMANDS = sorted(typer.main.get_group(command_line.complete_app()).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_built_alone_equals_the_one_among_all(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the command that the first argument names is built, with the same help."""
    monkeypatch.setattr(sys, "argv", ["windlass", command, "--help"])
    assert list(command_line.select_command([command, "--help"]).commands) == [command]  # type: ignore[attr-defined]
    with pytest.raises(SystemExit):
        command_line.main()
    alone = capsys.readouterr()
    with pytest.raises(SystemExit):
        command_line.complete_app()()
    assert capsys.readouterr() == alone


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--show-completion"], ["rum"], ["git"]])
def test_an_unknown_command_gets_the_whole_command_line(arguments: list[str]) -> None:
    """Help lists every command, and a misspelled one is compared with all of them."""
    whole = command_line.select_command(arguments)
    assert isinstance(whole, typer.Typer)
    assert sorted(typer.main.get_group(whole).commands) == COMMANDS


def test_the_development_commands_are_missing_without_their_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An installed product runs without windlass-dev; the error names what to install."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    for name in ("dev", "run"):
        monkeypatch.setattr(sys, "argv", ["windlass", name])
        with pytest.raises(SystemExit):
            command_line.main()
        assert "windlass-dev" in capsys.readouterr().err
    assert "dev" not in typer.main.get_group(command_line.complete_app()).commands


def test_a_command_of_our_own_reads_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading that of all distributions takes longer than some commands run."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: pytest.fail("read"))
    command_line.select_command(["controller"])
