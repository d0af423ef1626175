"""ARCHITECTURE.md matches the code: rooms, walks, pure modules and every name."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", re.MULTILINE)
_WALK_LINE = re.compile(r"((?:   )*)└─ (\w+(?:/\w+)*\.py) {2,}\S.*")


def _table() -> dict[str, tuple[int, str]]:
    text = (_ROOT / "ARCHITECTURE.md").read_text()
    return {room: (int(row), sentence) for row, room, sentence in _ROW.findall(text)}


def _files(pattern: str) -> list[Path]:
    """Of both distributions."""
    roots = (_ROOT / "src/windlass", _ROOT / "dev/src/windlass_dev")
    return [file for root in roots for file in root.rglob(pattern)]


def _sentence(package: Path) -> str:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert docstring is not None, f"{package} has no docstring"
    return docstring


def test_every_room_is_in_the_table_with_its_own_sentence() -> None:
    """A room that is added, removed or renamed must appear in the map."""
    rooms = {
        path.parent.name: path.parent for path in (_ROOT / "src/windlass").glob("*/__init__.py")
    }
    table = _table()
    assert table.keys() == rooms.keys()
    for name, package in rooms.items():
        assert table[name][1] == _sentence(package)


def test_rows_are_the_layers_that_the_linter_checks() -> None:
    """The map and the contract cannot drift apart."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    layers = [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]
    wanted = {room: row for row, layer in enumerate(layers, start=1) for room in layer}
    assert {room: row for room, (row, _) in _table().items()} == wanted


def test_every_package_has_one_sentence() -> None:
    """It describes the folder; a room that needs an `and` is two rooms."""
    for init in _files("__init__.py"):
        sentence = _sentence(init.parent)
        assert sentence[-1] in ".?", init
        assert sentence.count(". ") == 0, init
    for room in (_ROOT / "src/windlass").glob("*/__init__.py"):
        assert " and " not in _sentence(room.parent), room


def _defined() -> set[str]:
    """Every class, function and module of the package by its name."""
    names: set[str] = set()
    for file in _files("*.py"):
        names |= {file.stem, file.relative_to(_ROOT).parts[-2]}
        names |= set(
            re.findall(r"^ *(?:class|def|async def) (\w+)", file.read_text(), re.MULTILINE)
        )
    return names


def test_everything_the_map_names_exists() -> None:
    """Files and classes in backticks, and the values that pictures name."""
    text = (_ROOT / "ARCHITECTURE.md").read_text()
    quoted = set(re.findall(r"`([^`\n]+)`", text))
    for path in (each for each in quoted if each.endswith(".py")):
        assert (_ROOT / "src/windlass" / path).is_file(), path
    values = {each for each in quoted if re.fullmatch(r"[A-Z]\w+|\w+", each)}
    for picture in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        values |= set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", picture))
    kinds = {"ConfigMap", "NetworkPolicy", "Lease", "Git", "API"}
    assert (
        not values - _defined() - kinds - {path.name for path in (_ROOT / "src/windlass").iterdir()}
    )


def _walks() -> list[list[tuple[int, str]]]:
    """Depth and file of every line, for each picture that is a tree from its first line on."""
    pictures = re.findall(r"```\n(└─ .*?)\n```", (_ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)
    return [[_walk_line(line) for line in picture.splitlines()] for picture in pictures]


def _walk_line(line: str) -> tuple[int, str]:
    found = _WALK_LINE.fullmatch(line)
    assert found is not None, f"not a line of a walk: {line}"
    return len(found[1]) // 3, found[2]


def _with_parents(walk: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """Every file with the one it is indented below."""
    above: list[str] = []
    for depth, file in walk:
        assert depth <= len(above), f"{file} is indented too far"
        del above[depth:]
        if above:
            yield above[-1], file
        above.append(file)


def _imported(file: str) -> set[str]:
    """What a file imports anywhere, also in functions and for type checks; names included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((_ROOT / "src/windlass" / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_every_file_of_a_walk_exists_and_is_imported_by_the_one_above() -> None:
    """A newcomer who follows a walk finds each next file by its import."""
    walks = _walks()
    assert len(walks) == 4
    for walk in walks:
        assert 12 <= len(walk) <= 25
        for _, file in walk:
            assert (_ROOT / "src/windlass" / file).is_file(), file
        for parent, file in _with_parents(walk):
            module = _module(_ROOT / "src/windlass" / file)
            assert module in _imported(parent), f"{parent} does not import {file}"


def _module(file: Path) -> str:
    """The dotted name of a file of either distribution."""
    return ".".join(file.relative_to(file.parents[-1]).with_suffix("").parts).rpartition("src.")[2]


def _is_covered(module: str, contract: set[str]) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:length]) in contract for length in range(1, len(parts) + 1))


def test_modules_marked_pure_are_in_the_contract() -> None:
    """A docstring that ends with `Pure.` and the contract of the linter name the same modules."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    proven = {name for one in contracts if "pure" in one["name"] for name in one["source_modules"]}
    files = [file for file in _files("*.py") if file.name != "__init__.py"]
    claimed = {
        _module(file)
        for file in files
        if (ast.get_docstring(ast.parse(file.read_text())) or "").endswith("Pure.")
    }
    assert claimed == {name for name in map(_module, files) if _is_covered(name, proven)}


def test_every_source_file_that_a_document_names_exists() -> None:
    """A path in backticks is one of the repository, or one below a package."""
    below = (_ROOT, _ROOT / "src/windlass", _ROOT / "dev/src/windlass_dev")
    for page in (*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md")):
        for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", page.read_text()):
            assert any((root / path).is_file() for root in below), f"{page.name}: {path}"
