"""Resolves the table of settings from flags, variables and a file.

All errors of all sources are reported together. Each names the setting, where the value came
from, the value, and what was expected. An undeclared name is an error that suggests the nearest
declared one: a misspelled setting would otherwise silently keep its default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from windlass.app.settings import PREFIX, TABLE, Setting, Settings
from windlass.base.errors import Fatal
from windlass.base.redaction import process

FILE_VARIABLE = PREFIX + "CONFIG"

OTHER_VARIABLES = frozenset(
    {
        FILE_VARIABLE,
        "WINDLASS_BINARIES",
        "WINDLASS_DEV_PROTECT",
        "WINDLASS_DEV_REJECT",
        "WINDLASS_FAILPOINTS",
        "WINDLASS_FAILPOINT_LOG",
    }
)
"""Variables with our prefix that are not settings."""

_MAX_FILE_BYTES = 1024 * 1024
_MAX_SHOWN = 80
_SERVICE = re.compile(rf"({PREFIX}[A-Z0-9_]+)_SERVICE_HOST")


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value as given in a source; a list stays a list of texts."""

    value: str | Sequence[str]
    source: str


def resolve(
    *,
    flags: Mapping[str, str | Sequence[str]],
    environment: Mapping[str, str],
    file: Path | None = None,
) -> Settings:
    """The effective settings; Fatal lists every problem of the sources.

    `flags` has the given flags only, by the setting's name (`page-size`).
    """
    named = environment.get(FILE_VARIABLE, "")
    path = file or (Path(named) if named else None)
    text = _read_file(path) if path else ""
    return resolve_texts(flags=flags, environment=environment, text=text, file_name=str(path))


def resolve_texts(
    *,
    flags: Mapping[str, str | Sequence[str]],
    environment: Mapping[str, str],
    text: str = "",
    file_name: str = "",
) -> Settings:
    """Like `resolve`, with the file's content instead of its path."""
    problems: list[str] = []
    layers = (
        _from_flags(flags, problems),
        _from_environment(environment, problems),
        _from_file(text, file_name, problems),
    )
    values: dict[str, Any] = {}
    for setting in TABLE:
        # Every source is read, so that a bad value hidden by a better source is found too.
        for layer in reversed(layers):
            if setting.name in layer:
                _assign(setting, layer[setting.name], values, problems)
    if problems:
        raise Fatal("SettingsInvalid", "\n".join(problems))
    settings = Settings(**values)
    _check_lease(settings)
    return settings


def _check_lease(settings: Settings) -> None:
    duration, deadline, period = (
        settings.leader_elect_lease_duration,
        settings.leader_elect_renew_deadline,
        settings.leader_elect_retry_period,
    )
    # A Lease holds whole seconds, so a fraction of the duration does not count.
    if not int(duration) > deadline > period:
        raise Fatal(
            "SettingsInvalid",
            f"leader-elect-lease-duration ({duration:g}s) must be longer than "
            f"leader-elect-renew-deadline ({deadline:g}s), and that longer than "
            f"leader-elect-retry-period ({period:g}s)",
        )


def _assign(
    setting: Setting, given: SourcedValue, values: dict[str, Any], problems: list[str]
) -> None:
    if not isinstance(given.value, str) and not setting.repeated:
        problems.append(f"{given.source}: expected one value, {setting.form.expected}")
        return
    try:
        values[setting.attribute] = _parse(setting, given.value)
    except ValueError:
        shown = process.clean(_display_text(given.value), limit=_MAX_SHOWN)
        problems.append(
            f"{given.source}: invalid value {shown!r}; expected {setting.form.expected}"
        )


def _parse(setting: Setting, value: str | Sequence[str]) -> Any:
    if isinstance(value, str):
        return setting.form.read(value.strip())
    return tuple(item for text in value for item in setting.form.read(text))


def _display_text(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _from_flags(
    flags: Mapping[str, str | Sequence[str]], problems: list[str]
) -> dict[str, SourcedValue]:
    known = {setting.name for setting in TABLE}
    problems += [
        _unknown_name(f"--{name}", (f"--{k}" for k in known)) for name in flags.keys() - known
    ]
    return {name: SourcedValue(value, f"flag --{name}") for name, value in flags.items()}


def _from_environment(
    environment: Mapping[str, str], problems: list[str]
) -> dict[str, SourcedValue]:
    by_variable = {setting.variable: setting.name for setting in TABLE}
    ours = {name for name in environment if name.startswith(PREFIX)}
    unknown = ours - by_variable.keys() - OTHER_VARIABLES - _service_link_variables(environment)
    problems += [_unknown_name(f"variable {n}", by_variable, n) for n in sorted(unknown)]
    return {
        by_variable[name]: SourcedValue(environment[name], f"variable {name}")
        for name in sorted(ours & by_variable.keys())
    }


def _service_link_variables(environment: Mapping[str, str]) -> set[str]:
    """Variables the kubelet sets in every pod for Services whose names begin like ours."""
    services = [match[1] for name in environment if (match := _SERVICE.fullmatch(name))]
    return {
        name
        for name in environment
        for service in services
        if name == f"{service}_PORT" or name.startswith((f"{service}_PORT_", f"{service}_SERVICE_"))
    }


def _from_file(text: str, file_name: str, problems: list[str]) -> dict[str, SourcedValue]:
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        problems.append(f"{file_name}: invalid YAML{_line_hint(error)}")
        return {}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        problems.append(f"{file_name}: expected a mapping of `setting: value`")
        return {}
    return _from_mapping(root, file_name, problems)


def _from_mapping(
    root: yaml.MappingNode, file_name: str, problems: list[str]
) -> dict[str, SourcedValue]:
    known = {setting.name for setting in TABLE}
    layer: dict[str, SourcedValue] = {}
    for key, value in root.value:
        name = str(key.value)
        source = f"{file_name} line {key.start_mark.line + 1}, {name}"
        if name not in known:
            problems.append(_unknown_name(source, known, name))
        elif name in layer:
            problems.append(f"{source}: duplicate setting")
        elif (given := _scalar_or_list(value)) is None:
            problems.append(f"{source}: expected a plain value or a list of plain values")
        else:
            layer[name] = SourcedValue(given, source)
    return layer


def _scalar_or_list(node: yaml.Node) -> str | list[str] | None:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(
        isinstance(item, yaml.ScalarNode) for item in node.value
    ):
        return [str(item.value) for item in node.value]
    return None


def _unknown_name(what: str, known: Iterable[str], name: str = "") -> str:
    nearest = difflib.get_close_matches(name or what, list(known), n=1, cutoff=0.5)
    advice = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"{process.clean(what, limit=2 * _MAX_SHOWN)}: unknown setting{advice}"


def _line_hint(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" near line {mark.line + 1}" if mark is not None else ""


def _read_file(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Fatal("SettingsInvalid", f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise Fatal("SettingsInvalid", f"{path} is larger than {_MAX_FILE_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Fatal("SettingsInvalid", f"{path} is not UTF-8 text") from error
