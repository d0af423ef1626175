"""The `windlass` command.

Only typer is imported at the top; each command imports what it needs when it runs, so that
`--help` stays fast. Further commands come from installed distributions, by the entry point
group `windlass.commands`: a name with a `typer.Typer` (a group of commands) or a function
(one command). The metadata of all distributions is read for that, so it is read only when
the first word is not a command of our own: `windlass controller` and `windlass agent` never do.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
import typer.main

from windlass.cli import agent, check, gateway, mirror, run

ENTRY_POINTS = "windlass.commands"

_DEVELOPMENT_COMMANDS = frozenset({"dev", "run"})
"""Commands of the distribution windlass-dev, for a clear error where it is not installed."""

app = typer.Typer(
    name="windlass",
    help="Syncs Git and Kubernetes, in both directions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: drawing it with rich loads a Markdown reader and a highlighter first.
    rich_markup_mode=None,
)
app.add_typer(gateway.app, name="gateway")
app.command("mirror")(mirror.mirror)
app.command("check")(check.check)
app.command("controller")(run.controller)
app.command("agent")(agent.agent)


@app.command("version")
def version() -> None:
    """Print the version."""
    from windlass import __version__

    typer.echo(__version__)


def main() -> None:
    """Run the command line; a WindlassError is printed as one line."""
    from windlass.base import redaction
    from windlass.base.errors import WindlassError

    try:
        select_command(sys.argv[1:])()
    except WindlassError as error:
        text = redaction.visible(f"windlass: {error.message} ({error.reason})")
        typer.echo(text, err=True)
        sys.exit(1)


def select_command(words: Sequence[str]) -> Callable[[], Any]:
    """The command that the first word names; the whole command line if it names none.

    Building all commands, with some two hundred options, takes longer than some of them run.
    """
    name = words[0] if words else ""
    own = _single_command(app, name)
    if own is not None:
        return own
    whole = complete_app()
    command = _single_command(whole, name)
    if command is None and name in _DEVELOPMENT_COMMANDS:
        raise _not_installed(name)
    return command or whole


def complete_app() -> typer.Typer:
    """The command line with the commands of other distributions."""
    from importlib.metadata import entry_points

    whole = copy.copy(app)
    whole.registered_commands = list(app.registered_commands)
    whole.registered_groups = list(app.registered_groups)
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        command = entry.load()
        if isinstance(command, typer.Typer):
            whole.add_typer(command, name=entry.name)
        else:
            whole.command(entry.name)(command)
    return whole


def _single_command(whole: typer.Typer, name: str) -> Callable[[], Any] | None:
    selected = copy.copy(whole)
    selected.registered_commands = [
        command for command in whole.registered_commands if command.name == name
    ]
    selected.registered_groups = [
        command for command in whole.registered_groups if command.name == name
    ]
    if not selected.registered_commands and not selected.registered_groups:
        return None
    return typer.main.get_group(selected)


def _not_installed(name: str) -> Exception:
    from windlass.base.errors import WindlassError

    return WindlassError(
        "CommandNotInstalled",
        f"`windlass {name}` needs the package windlass-dev, which is not installed; install it "
        "with `pip install windlass-dev`, in a checkout with `make setup`",
    )
