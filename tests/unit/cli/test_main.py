"""The command line as a whole."""

from __future__ import annotations

import sys

import pytest
import typer.main

from windlass.cli import main as command_line

COMMANDS = sorted(typer.main.get_group(command_line.app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_made_alone_is_the_one_among_all(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what the first word names is made, and its help is that of the whole command line."""
    monkeypatch.setattr(sys, "argv", ["windlass", command, "--help"])
    assert list(command_line._asked_for([command, "--help"]).commands) == [command]  # type: ignore[attr-defined]
    with pytest.raises(SystemExit):
        command_line.main()
    alone = capsys.readouterr()
    with pytest.raises(SystemExit):
        command_line.app()
    assert capsys.readouterr() == alone


@pytest.mark.parametrize("words", [[], ["--help"], ["--show-completion"], ["rum"], ["git"]])
def test_a_word_that_is_no_command_gets_the_whole_command_line(words: list[str]) -> None:
    """Help lists every command, and a misspelt one is compared with all of them."""
    assert command_line._asked_for(words) is command_line.app
