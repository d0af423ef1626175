"""Turns the table of settings into options of a typer command.

`@accepts_settings` replaces a command's argument `settings` by every setting and `--config`; the
command gets one resolved `Settings`. YAML is loaded only when a command runs: `--help` must stay
fast.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.app import settings_forms as forms
from windlass.app.option_group import accepts_options, option
from windlass.app.settings import TABLE, Setting, Settings

_PANEL = "Settings"

_METAVARS: dict[type, str] = {
    forms.Commas: "VALUE,...",
    forms.Directory: "PATH",
    forms.Listen: "HOST:PORT",
    forms.Pairs: "NAME=VALUE,...",
    forms.Several: "VALUE,...",
}
"""What `--help` calls a value, where that is not the name of its form."""


def _resolve(config: Path | None, **options: Any) -> Settings:
    # Imported here, because --help needs no YAML.
    from windlass.app import settings_sources as sources

    flags = {setting.name: options[setting.attribute] for setting in TABLE}
    given = {name: _as_text(value) for name, value in flags.items() if value not in (None, [])}
    return sources.resolve(flags=given, environment=os.environ, file=config)


def _as_text(value: bool | str | Sequence[str]) -> str | Sequence[str]:
    return forms.Bool().write(value) if isinstance(value, bool) else value


def _config_option() -> inspect.Parameter:
    shown = typer.Option("--config", help="YAML file of settings.", rich_help_panel=_PANEL)
    return option("config", Annotated[Path | None, shown], None)


def _option(setting: Setting) -> inspect.Parameter:
    default = setting.form.write(setting.default) or "none"
    shown: dict[str, Any] = {
        "help": f"{setting.help} (default {default})",
        "show_default": False,
        "rich_help_panel": _PANEL,
    }
    if isinstance(setting.form, forms.Bool):
        both = typer.Option(f"{setting.flag}/--no-{setting.name}", **shown)
        return option(setting.attribute, Annotated[bool | None, both], None)
    one = typer.Option(setting.flag, metavar=_metavar(setting), **shown)
    kind = list[str] if setting.repeated else str
    return option(setting.attribute, Annotated[kind | None, one], None)


def _metavar(setting: Setting) -> str:
    if isinstance(setting.form, forms.OneOf):
        return "|".join(setting.form.words)
    kind = type(setting.form)
    return _METAVARS.get(kind, kind.__name__.upper())


accepts_settings = accepts_options(
    "settings", [_config_option(), *(_option(setting) for setting in TABLE)], _resolve
)
"""The decorator for commands that need the settings of a process."""
