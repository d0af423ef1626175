"""The `windlass` command.

Only typer is imported up here; each command brings what it needs when it runs, so that
asking for help stays fast.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
import typer.main

from windlass.cli import agent, check, demo, dev, dev_gateway, gateway, mirror, run

__all__ = ["app", "demo", "dev_gateway", "main"]

app = typer.Typer(
    name="windlass",
    help="Winds Git and Kubernetes together, in both directions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: drawing it with rich loads a Markdown reader and a highlighter first.
    rich_markup_mode=None,
)
app.add_typer(dev.app, name="dev")
app.add_typer(gateway.app, name="gateway")
app.command("mirror")(mirror.mirror)
app.command("check")(check.check)
app.command("run")(run.run)
app.command("controller")(run.controller)
app.command("agent")(agent.agent)


@app.command("version")
def version() -> None:
    """Print the version."""
    from windlass import __version__

    typer.echo(__version__)


def main() -> None:
    """Run the command line; our own errors are told in one line."""
    from windlass.base import redaction
    from windlass.base.errors import WindlassError

    try:
        _asked_for(sys.argv[1:])()
    except WindlassError as error:
        text = redaction.visible(f"windlass: {error.message} ({error.reason})")
        typer.echo(text, err=True)
        sys.exit(1)


def _asked_for(words: Sequence[str]) -> Callable[[], Any]:
    """The command line, with the one command that the first word names, where it names one.

    To make all of them, with some two hundred options, takes longer than some of them run.
    """
    asked = words[0] if words else ""
    alone = copy.copy(app)
    alone.registered_commands = [one for one in app.registered_commands if one.name == asked]
    alone.registered_groups = [one for one in app.registered_groups if one.name == asked]
    if alone.registered_commands or alone.registered_groups:
        return typer.main.get_group(alone)
    return app
