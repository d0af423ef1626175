"""Ids of the specification are defined once, and everything that is cited is defined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.support.repository import specification

_ROOT = Path(__file__).parents[2]
_CITING = ("src", "tests", "bench", "docs")
_DEFINITIONS = specification.read(_ROOT / "docs/spec")
_SCENARIOS = frozenset(each.identifier for each in _DEFINITIONS if each.is_scenario)


def test_no_id_is_defined_twice() -> None:
    """In all documents together, so that an id means one thing."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for each in _DEFINITIONS:
        places[each.identifier].append(f"{each.document}:{each.line}")
    repeated = {name: where for name, where in places.items() if len(where) > 1}
    assert not repeated, _listed(repeated)


def test_every_statement_that_is_cited_is_defined() -> None:
    """Code, tests and documents name statements by their ids."""
    defined = {each.identifier for each in _DEFINITIONS}
    undefined: defaultdict[str, list[str]] = defaultdict(list)
    for file in specification.citing_files(_ROOT / folder for folder in _CITING):
        for name in specification.cited_statements(file.read_text()) - defined:
            undefined[name].append(_name(file))
    assert not undefined, _listed(undefined)


def test_every_scenario_that_a_test_carries_is_defined() -> None:
    """A marker with an undefined id proves nothing."""
    unknown = _carried(lambda name: name not in _SCENARIOS)
    assert not unknown, _listed(unknown)


def test_no_planned_scenario_has_a_test() -> None:
    """Implementing a planned scenario removes its mark."""
    planned = {each.identifier for each in _DEFINITIONS if each.planned}
    proven = _carried(lambda name: name in planned)
    assert not proven, _listed(proven)


def test_every_scenario_has_a_sentence() -> None:
    """`make scenarios` prints it beside the id."""
    assert [
        each.identifier for each in _DEFINITIONS if each.is_scenario and not each.sentence
    ] == []


def _carried(wanted: Callable[[str], bool]) -> dict[str, list[str]]:
    """The scenario ids in markers of which `wanted` is true, with the modules that have them."""
    found = specification.tested(_ROOT / "tests")
    return {name: [_name(file) for file in files] for name, files in found.items() if wanted(name)}


def _name(file: Path) -> str:
    return file.relative_to(_ROOT).as_posix()


def _listed(places: Mapping[str, Iterable[str]]) -> str:
    """One line for each id, with its files."""
    names = sorted(places, key=specification.order)
    return "\n".join(f"{name}: {', '.join(sorted(places[name]))}" for name in names)
