"""Reads the ids of the specification: where they are defined, where they are cited.

docs/spec/README.md describes the format. A definition is a table row whose first cell is a
scenario id, a list item that begins with a bold scenario id, or a bold statement or promise
id anywhere in the text. Fenced code blocks define nothing, and neither does README.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

PLANNED = "*(planned)*"

_STATEMENT = re.compile(r"[A-Z]{3}-[0-9]+")
_SCENARIO = re.compile(r"[AEFGS][0-9]+")

_BOLD = re.compile(r"\*\*([A-Z]{3}-[0-9]+|[A-Z]?P[0-9]+)(?: \([A-Z]+\))?\*\*")
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]+\.)\s+\*\*([AEFGS][0-9]+)\*\*\s*(.*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CITED = re.compile(rf"\b{_STATEMENT.pattern}\b")
_ORDER = re.compile(r"([A-Z]+)-?([0-9]+)")

STANDARDS = frozenset({"AES", "CVE", "DNS", "ISO", "RFC", "RSA", "SHA", "SSH", "TLS", "UTF"})
"""Prefixes of names that have the form of a statement id and are none, such as UTF-8."""

_CITING = frozenset({".md", ".py"})


@dataclass(frozen=True, slots=True)
class Definition:
    """One id with the document and line that define it.

    sentence: the text behind the id, without the mark; for table rows all further cells
    planned:  whether the id or a heading above it carries the mark
    """

    identifier: str
    document: str
    line: int
    sentence: str
    planned: bool

    @property
    def is_scenario(self) -> bool:
        return is_scenario(self.identifier)


def is_scenario(identifier: str) -> bool:
    """Whether an id is that of a scenario, such as A31."""
    return _SCENARIO.fullmatch(identifier) is not None


def order(identifier: str) -> tuple[str, int]:
    """The sort key of an id: A2 before A10."""
    match = _ORDER.fullmatch(identifier)
    return (match[1], int(match[2])) if match is not None else (identifier, 0)


def documents(folder: Path) -> list[Path]:
    """The documents that define ids: all pages but the README."""
    return sorted(page for page in folder.glob("*.md") if page.name != "README.md")


def read(folder: Path) -> list[Definition]:
    """The definitions of all documents in `folder`."""
    return [
        definition
        for page in documents(folder)
        for definition in definitions(page.read_text(), page.name)
    ]


def definitions(text: str, document: str) -> Iterator[Definition]:
    """The definitions in the text of one document, in their order."""
    for number, line, in_planned_section in _lines(text):
        for identifier, rest in _defined(line):
            sentence = rest.removeprefix(PLANNED).strip()
            planned = in_planned_section or rest.startswith(PLANNED)
            yield Definition(identifier, document, number, sentence, planned)


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines outside of code blocks and headings, with whether a heading above is planned."""
    fenced, planned_level = False, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced:
            continue
        elif heading := _HEADING.match(line):
            planned_level = _planned_level(heading, planned_level)
        else:
            yield number, line, planned_level > 0


def _planned_level(heading: re.Match[str], above: int) -> int:
    """The level of the planned heading whose section goes on behind `heading`; 0 for none."""
    level = len(heading[1])
    if above and level > above:
        return above
    return level if heading[2].rstrip().endswith(PLANNED) else 0


def _defined(line: str) -> Iterator[tuple[str, str]]:
    """Every id that a line defines, with the text behind it."""
    scenario = _scenario(line)
    if scenario is not None:
        yield scenario
        return
    found = list(_BOLD.finditer(line))
    for match, following in zip_longest(found, found[1:]):
        end = following.start() if following is not None else len(line)
        yield match[1], line[match.end() : end].strip(" |")


def _scenario(line: str) -> tuple[str, str] | None:
    """The scenario that a table row or a list item defines, with its sentence."""
    if line.lstrip().startswith("|"):
        first, *others = cells(line)
        identifier = first.strip("*")
        return (identifier, " ".join(filter(None, others))) if is_scenario(identifier) else None
    item = _ITEM.match(line)
    return (item[1], item[2].strip()) if item is not None else None


def cells(row: str) -> list[str]:
    """The cells of a table row; an escaped bar does not end one."""
    inner = row.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in _CELL_BORDER.split(inner)]


def cited_statements(text: str) -> set[str]:
    """The statement ids that a text cites, without the names of standards."""
    return {name for name in _CITED.findall(text) if name.partition("-")[0] not in STANDARDS}


def cited_scenarios(source: str) -> set[str]:
    """The arguments of every `pytest.mark.scenario` in the source of a Python module."""
    if "mark.scenario" not in source:
        return set()
    return {
        str(argument.value) if isinstance(argument, ast.Constant) else ast.unparse(argument)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and _is_marker(node.func)
        for argument in node.args
    }


def _is_marker(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "scenario"
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "mark"
    )


def tested(tests: Path) -> dict[str, set[Path]]:
    """The test modules below `tests` that carry each scenario id."""
    found: dict[str, set[Path]] = {}
    for module in sorted(tests.rglob("test_*.py")):
        for identifier in cited_scenarios(module.read_text()):
            found.setdefault(identifier, set()).add(module)
    return found


def citing_files(folders: Iterable[Path]) -> Iterator[Path]:
    """The Python modules and Markdown pages below `folders`."""
    for folder in folders:
        yield from sorted(page for page in folder.rglob("*") if page.suffix in _CITING)
