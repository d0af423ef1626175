"""The external contracts of the product, collected from its sources.

Each topic has a golden file in tests/fixtures/contracts: one line per name, sorted. The
collections are broad on purpose: they take every literal of a certain form, or every class
with a certain role, and never one by the name of its module, class or function. So a file
stays the same while the code is moved and renamed, and says so when a contract is not.

    python -m tests.support.repository.contracts            writes the golden files anew
    python -m tests.support.repository.contracts --check    prints how they differ

Structs that are written or sent stand in formats.txt under a name of their own and are found
by their encoded fields. A new one gets a line by hand, `name: .field type`, before the files
are written anew. Manifests below deploy/ are golden files themselves: `make verify`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import typer
from prometheus_client import CollectorRegistry

from tests.support.repository import document_shapes
from tests.support.repository.source_texts import HOLE, Module, Sources, calls, grouped, keys_read

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/fixtures/contracts"
FORMATS = "formats"

# Typer brings a click of its own, which it does not export.
Command: TypeAlias = Any

_FOLDERS = [folder for folder in (ROOT / "src", ROOT / "dev/src") if folder.is_dir()]
# The local cluster and the demo hold names of many programs, and none that users rely on.
_DEVELOPMENT = re.compile(r"(windlass_)?dev(_\w+)?|demo|generate")

_TOKEN = r"(?:\{[^{}]*\}|[A-Za-z0-9._/@:*=-])"
_REASON = re.compile(r"(\{\})?[A-Z](?=[A-Za-z0-9]*[a-z])[A-Za-z0-9]+(\{\})?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]+(_[A-Z0-9{}]+)*_?")
_KEY = re.compile(r"(?=.*[a-z])[a-z0-9*-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._/{}-]*")
_NAME = re.compile(rf"(?!-)(?=.*[A-Za-z]){_TOKEN}*[-./@]{_TOKEN}*")
_WORD = re.compile(r"_?[a-z][A-Za-z0-9]+")
_KEY_WORD = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")
_GROUPED = re.compile(rf"(?![a-z]+_[a-z]){_TOKEN}*[A-Za-z]{_TOKEN}*")
_MESSAGE = re.compile(
    r"\[[^\]]*\] .*|X-.*|.*\buser/.*|.*\{\}: \{\}\n|and \{\} more|.* no longer mirrored: .*"
    r"|\([a-z]+\)|REDACTED.*",
    re.DOTALL,
)
_SETTING = re.compile(r"^\| (`--.*?) \| (.*?) \| (.*?) \| (.*?) \|", re.MULTILINE)
_LOG_CALLS = ("debug", "info", "warning", "error", "exception", "critical")
_EXITS = ("exit", "_exit", "Exit", "SystemExit")


@dataclass(frozen=True, slots=True)
class Topic:
    """One golden file: what its lines are, and how the present ones are collected."""

    title: str
    collect: Callable[[], Iterable[str]]


@functools.cache
def sources() -> Sources:
    """All Python sources of the repository that are shipped or run."""
    return Sources(_FOLDERS)


@functools.cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of our packages, imported."""
    packages = [init.parent for folder in _FOLDERS for init in folder.glob("*/__init__.py")]
    names = [
        name
        for package in packages
        for name in (
            package.name,
            *(found.name for found in pkgutil.walk_packages([str(package)], f"{package.name}.")),
        )
    ]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def failpoints() -> Iterator[str]:
    """Arguments of `reach`; a parameter in one is filled with what its callers pass."""
    for module, name in _failpoints():
        yield from sources().variants(module, name)


def metrics() -> Iterator[str]:
    """Every metric of every class that is made of nothing but a registry."""
    for kind in _classes():
        if _parameter_types(kind) == [CollectorRegistry]:
            registry = CollectorRegistry()
            kind(registry)
            yield from map(_metric, registry._collector_to_names)


def reasons() -> Iterator[str]:
    """UpperCamelCase texts, with the names of exceptions that stand for an HTTP status."""
    yield from _matching(_REASON)
    for module in modules():
        for table in vars(module).values():
            if isinstance(table, dict) and table and all(map(_is_status, table.items())):
                yield from (error.__name__ for error in table.values())


def variables() -> Iterator[str]:
    """Texts in capitals: environment variables, operations, placeholders of usage texts."""
    return (text for text in sources().texts if _VARIABLE.fullmatch(text))


def keys() -> Iterator[str]:
    """Texts with a domain before a slash."""
    return _matching(_KEY)


def names() -> Iterator[str]:
    """Texts with a dash, dot, slash or at sign and without blanks, that no other topic has."""
    reached = {sources().template(*position) for position in _failpoints()}
    # A name of two parts may also be a domain, like windlass.dev.
    imported = {name for name in sources().modules if name.count(".") > 1}
    elsewhere = {*reached, *keys(), *imported}
    return (text for text in _matching(_NAME) if text not in elsewhere and not text.endswith(".py"))


def words() -> Iterator[str]:
    """Texts of one word that begins with a small letter; several_words where they are keys."""
    yield from _matching(_WORD)
    for module in _product():
        for key in keys_read(module):
            text = sources().template(module, key) or ""
            yield from [text] if _KEY_WORD.fullmatch(text) else []


def groups() -> Iterator[str]:
    """Words that stand together: keys of one mapping, values of one type or constant."""
    for module in _product():
        for group in grouped(module):
            texts = {sources().template(module, each) or "" for each in group}
            if len(texts) > 1 and all(map(_GROUPED.fullmatch, texts)):
                yield ", ".join(sorted(texts))


def messages() -> Iterator[str]:
    """Templates of commit messages, their trailers, the lines of claims, redaction markers."""
    return (text.encode("unicode_escape").decode() for text in _matching(_MESSAGE))


def log_fields() -> Iterator[str]:
    """Names of keyword arguments of log calls, also of those under another name."""
    for module in _product():
        for call in calls(module, *_LOG_CALLS, *_log_aliases(module)):
            yield from (keyword.arg for keyword in call.keywords if keyword.arg is not None)


def settings() -> Iterator[str]:
    """Rows of the generated reference page: flag, variable, default, accepted values."""
    page = (ROOT / "docs/reference/settings.md").read_text()
    return (" | ".join(row).replace("`", "") for row in _SETTING.findall(page))


def commands() -> Iterator[str]:
    """Every command with its options, variables and defaults, as click knows them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for program, entry in project["scripts"].items():
        module = importlib.import_module(entry.partition(":")[0])
        # The whole command line, with what other distributions add to it.
        yield from _usage(typer.main.get_command(module.complete_app()), program)


def exit_codes() -> Iterator[str]:
    """Arguments of calls that end a process; of a conditional both."""
    for module in sources().modules.values():
        for call in calls(module, *_EXITS):
            yield from (
                _code(module, choice) for each in call.args[:1] for choice in _choices(each)
            )


TOPICS: Mapping[str, Topic] = {
    "commands": Topic("Commands with options, variables and defaults", commands),
    "exit_codes": Topic("Exit codes; {} is one that is computed", exit_codes),
    "failpoints": Topic("Failpoints; {} is a computed part", failpoints),
    "groups": Topic("Keys of one mapping, values of one type or constant", groups),
    "keys": Topic(
        "Labels, annotations, finalizers, field managers, API versions: names with a domain", keys
    ),
    "log_fields": Topic("Fields of log records", log_fields),
    "messages": Topic("Forms of commit messages, trailers, claims and redacted values", messages),
    "metrics": Topic("Metrics with labels and type", metrics),
    "names": Topic(
        "Names of objects, files, directories, refs, paths, hosts, keys with a dash or dot", names
    ),
    "reasons": Topic(
        "Condition types, reasons, phases, Event reasons and actions, kinds: UpperCamelCase",
        reasons,
    ),
    "settings": Topic("Settings: flag and file key, variable, default, values", settings),
    "variables": Topic("Environment variables and other texts in capitals", variables),
    "words": Topic("Keys of ConfigMaps, Secrets and documents, values: single words", words),
}


NAMES = sorted((*TOPICS, FORMATS))


def golden(name: str) -> frozenset[str]:
    """The lines of a golden file, without its title."""
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("# "))


def present(name: str) -> frozenset[str]:
    """The lines that a golden file should have now."""
    return present_formats() if name == FORMATS else frozenset(TOPICS[name].collect())


def present_formats() -> frozenset[str]:
    """For each document in its golden file the lines of the class that is most similar."""
    shapes = document_shapes.struct_shapes({module.__name__ for module in modules()})
    documents: dict[str, set[str]] = {}
    for line in golden(FORMATS):
        document, _, field = line.partition(": ")
        documents.setdefault(document, set()).add(field)
    return frozenset(
        f"{document}: {field}"
        for document, fields in documents.items()
        for field in document_shapes.nearest_shape(fields, shapes)
    )


def difference(name: str) -> str:
    """What appeared and disappeared since a golden file was written; empty for nothing."""
    before, now = golden(name), present(name)
    lines = [f"  disappeared: {line}" for line in sorted(before - now)]
    lines += [f"  appeared:    {line}" for line in sorted(now - before)]
    return "\n".join(lines)


def write(name: str) -> None:
    """Write a golden file as the sources are now."""
    file = GOLDEN / f"{name}.txt"
    title = _title(name)
    file.write_text("\n".join([f"# {title}", *sorted(present(name))]) + "\n")


def _title(name: str) -> str:
    if name == FORMATS:
        return "Documents on disks, in ConfigMaps and in output: field, type, default"
    return TOPICS[name].title


def _product() -> Iterator[Module]:
    """The sources that users run, without those for development."""
    for module in sources().modules.values():
        if not any(map(_DEVELOPMENT.fullmatch, module.name.split("."))):
            yield module


@functools.cache
def _product_texts() -> frozenset[str]:
    return frozenset(text for module in _product() for text in sources().texts_of(module))


def _matching(pattern: re.Pattern[str]) -> Iterator[str]:
    return (text for text in _product_texts() if pattern.fullmatch(text))


def _failpoints() -> Iterator[tuple[Module, ast.expr]]:
    """The argument of every call of `reach`, with its module."""
    for module in sources().modules.values():
        for call in calls(module, "reach"):
            yield from ((module, name) for name in call.args[:1])


def _classes() -> Iterator[type[Any]]:
    for module in modules():
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                yield value


def _parameter_types(kind: type[Any]) -> list[Any]:
    """Types of the parameters with which a class is created; none if not annotated."""
    if not inspect.isfunction(kind.__init__):
        return []
    try:
        hints = typing.get_type_hints(kind.__init__)
    except NameError:
        return []
    return [hints.get(name) for name in list(inspect.signature(kind.__init__).parameters)[1:]]


def _metric(metric: Any) -> str:
    total = "_total" if metric._type == "counter" else ""
    return f"{metric._name}{total}{{{','.join(metric._labelnames)}}} {metric._type}"


def _is_status(entry: tuple[object, object]) -> bool:
    code, error = entry
    return isinstance(code, int) and inspect.isclass(error) and issubclass(error, Exception)


def _usage(command: Command, path: str) -> Iterator[str]:
    yield path
    for parameter in command.params:
        if not any("-completion" in option for option in parameter.opts):
            yield f"{path} {_parameter(parameter)}"
    for name, below in _below(command).items():
        yield from _usage(below, f"{path} {name}")


def _below(command: Command) -> Mapping[str, Command]:
    found: Mapping[str, Command] = getattr(command, "commands", {})
    return found


def _parameter(parameter: Any) -> str:
    """An option by its flags; an argument without its name, which users do not type."""
    is_option = parameter.param_type_name == "option"
    annotated = [
        ",".join((*parameter.opts, *parameter.secondary_opts)) if is_option else "ARGUMENT"
    ]
    annotated += [f"variable={parameter.envvar}"] if parameter.envvar else []
    annotated += ["required"] if parameter.required else []
    annotated += ["repeated"] if getattr(parameter, "multiple", False) else []
    default = getattr(parameter.default, "value", parameter.default)
    annotated += [f"default={default}"] if default not in (None, "", False) else []
    return " ".join(annotated)


def _log_aliases(module: Module) -> Iterator[str]:
    """Names that were assigned a method of a logger, as in `say = log.warning`."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found = (each.attr for each in ast.walk(value) if isinstance(each, ast.Attribute))
                yield from [name] if any(each in _LOG_CALLS for each in found) else []


def _choices(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from (*_choices(node.body), *_choices(node.orelse))
    else:
        yield node


def _code(module: Module, node: ast.expr) -> str:
    found = sources().constant(module, node)
    value = found[1] if found is not None else node
    return str(value.value) if isinstance(value, ast.Constant) else HOLE


def main(*arguments: str) -> int:
    """Write all golden files; with --check only print how they differ."""
    if "--check" not in arguments:
        for name in NAMES:
            write(name)
        return 0
    found = {name: difference(name) for name in NAMES}
    for name, lines in found.items():
        sys.stdout.write(f"{name}.txt differs:\n{lines}\n" if lines else "")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
