"""Turns the table of settings into options of a typer command.

`@accepts_settings` adds every setting, and `--config`, to a command's options and passes the
command one resolved `Settings` as its argument `settings`. YAML is loaded only when a command
runs: `--help` must stay fast.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from windlass.app import settings_forms as forms
from windlass.app.settings import TABLE, Setting

R = TypeVar("R")

_PANEL = "Settings"


def accepts_settings(command: Callable[..., R]) -> Callable[..., R]:
    """The command with every setting as an option; its own options stay."""
    own = [p for p in _parameters(command) if p.name != "settings"]

    def run(config: Path | None = None, **options: Any) -> R:
        # Imported here, because --help needs no YAML.
        from windlass.app import settings_sources as sources

        flags = {setting.name: options.pop(setting.attribute) for setting in TABLE}
        given = {name: _as_text(value) for name, value in flags.items() if value not in (None, [])}
        settings = sources.resolve(flags=given, environment=os.environ, file=config)
        return command(settings=settings, **options)

    parameters = [*own, *_OPTIONS]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _parameters(command: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]


def _as_text(value: bool | str | Sequence[str]) -> str | Sequence[str]:
    return forms.Bool().write(value) if isinstance(value, bool) else value


def _config_option() -> inspect.Parameter:
    option = typer.Option("--config", help="YAML file of settings.", rich_help_panel=_PANEL)
    return _parameter("config", Annotated[Path | None, option], None)


def _option(setting: Setting) -> inspect.Parameter:
    default = setting.form.write(setting.default) or "none"
    shown: dict[str, Any] = {
        "help": f"{setting.help} (default {default})",
        "show_default": False,
        "rich_help_panel": _PANEL,
    }
    if isinstance(setting.form, forms.Bool):
        both = typer.Option(f"{setting.flag}/--no-{setting.name}", **shown)
        return _parameter(setting.attribute, Annotated[bool | None, both], None)
    option = typer.Option(setting.flag, metavar=_metavar(setting), **shown)
    if setting.repeated:
        return _parameter(setting.attribute, Annotated[list[str] | None, option], None)
    return _parameter(setting.attribute, Annotated[str | None, option], None)


def _metavar(setting: Setting) -> str:
    if isinstance(setting.form, forms.OneOf):
        return "|".join(setting.form.words)
    return type(setting.form).__name__.upper()


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


_OPTIONS = [_config_option(), *(_option(setting) for setting in TABLE)]
