"""Settings written as flags, as variables, as a file."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from windlass.app.settings import TABLE, Setting, Settings
from windlass.app.settings_forms import Bool


def as_flags(settings: Settings) -> list[str]:
    """The flags that give these settings."""
    return [
        _as_flag(setting, text) for setting, texts in _formatted_values(settings) for text in texts
    ]


def as_environment(settings: Settings) -> dict[str, str]:
    """The variables that give these settings, as a child process needs them."""
    return {setting.variable: ",".join(texts) for setting, texts in _formatted_values(settings)}


def as_file(settings: Settings) -> str:
    """The file that gives these settings."""
    content = {
        setting.name: texts if setting.repeated else texts[0]
        for setting, texts in _formatted_values(settings)
    }
    return yaml.safe_dump(content, sort_keys=False)


def _formatted_values(settings: Settings) -> Iterator[tuple[Setting, list[str]]]:
    for setting in TABLE:
        value = getattr(settings, setting.attribute)
        if setting.repeated:
            yield setting, [setting.form.write((item,)) for item in value]
        else:
            yield setting, [setting.form.write(value)]


def _as_flag(setting: Setting, text: str) -> str:
    if isinstance(setting.form, Bool):
        return setting.flag if text == "true" else f"--no-{setting.name}"
    return f"{setting.flag}={text}"
