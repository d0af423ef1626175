"""Prints every scenario of the specification with its tests and their results.

A pytest plugin: `--scenarios` adds three tables to the end of a run: scenario id, sentence,
tests and results; the scenarios without a test; the planned ones. Ids of tests come from the
`scenario` marker, sentences from docs/spec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.repository import specification
from tests.support.repository.specification import Definition

_ROOT = Path(__file__).parents[3]
_PROPERTY = "scenario"
_UNDEFINED = "(not defined in docs/spec)"
_INDENT = 6

Results = Mapping[tuple[str, str], str]
"""The result of each test by scenario id and node id."""


@dataclass
class ResultTable:
    """The worst result seen per scenario and test."""

    results: dict[tuple[str, str], str] = field(default_factory=dict)

    def record(self, scenario: str, test: str, report: pytest.TestReport) -> None:
        known = self.results.get((scenario, test))
        if report.outcome != "passed":
            self.results[scenario, test] = report.outcome
        elif known is None and report.when == "call":
            self.results[scenario, test] = "passed"


_TABLE = pytest.StashKey[ResultTable]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--scenarios`."""
    parser.addoption(
        "--scenarios",
        action="store_true",
        help="print id, sentence, tests and results of all scenarios at the end",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty table and listen to reports."""
    config.stash[_TABLE] = ResultTable()
    config.pluginmanager.register(_Listener(config.stash[_TABLE]), "windlass-scenarios")


class _Listener:
    """Reads the ids off the reports, so that it also works where tests ran elsewhere."""

    def __init__(self, table: ResultTable) -> None:
        self._table = table

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == _PROPERTY:
                self._table.record(str(value), report.nodeid, report)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write the ids of the marker where reports carry them along."""
    for item in items:
        for marker in item.iter_markers(_PROPERTY):
            item.user_properties.extend((_PROPERTY, identifier) for identifier in marker.args)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the tables."""
    if not config.getoption("--scenarios"):
        return
    width = config.get_terminal_writer().fullwidth
    scenarios = [each for each in specification.read(_ROOT / "docs/spec") if each.is_scenario]
    # By source and not by result: a run of some tests does not make the others missing.
    tested = specification.tested(_ROOT / "tests").keys()
    tables = {
        "scenarios": result_lines(config.stash[_TABLE].results, scenarios, width),
        "scenarios without a test": untested_lines(scenarios, tested, width),
        "planned scenarios": planned_lines(scenarios, width),
    }
    for title, lines in tables.items():
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


def result_lines(results: Results, scenarios: Iterable[Definition], width: int) -> Iterator[str]:
    """Id and sentence of each scenario with results, below it test and result, A2 before A10."""
    sentences = {each.identifier: each.sentence for each in scenarios}
    outcomes: dict[str, dict[str, list[str]]] = {}
    for (identifier, node), result in sorted(results.items()):
        # The cases of a parametrized test are one test here.
        test = node.partition("[")[0]
        outcomes.setdefault(identifier, {}).setdefault(test, []).append(result)
    for identifier in sorted(outcomes, key=specification.order):
        yield scenario_line(identifier, sentences.get(identifier, _UNDEFINED), width)
        for test, cases in outcomes[identifier].items():
            yield f"{'':{_INDENT}}{test}  {_summarized(cases)}"


def _summarized(cases: list[str]) -> str:
    """The result of a test; with counts where it has several cases."""
    if len(cases) == 1:
        return cases[0]
    return ", ".join(f"{count} {result}" for result, count in sorted(Counter(cases).items()))


def untested_lines(
    scenarios: Iterable[Definition], tested: Collection[str], width: int
) -> Iterator[str]:
    """The scenarios that no test carries although they are not planned, by document."""
    missing = (each for each in scenarios if not each.planned and each.identifier not in tested)
    return _by_document(missing, width)


def planned_lines(scenarios: Iterable[Definition], width: int) -> Iterator[str]:
    """The planned scenarios, by document."""
    return _by_document((each for each in scenarios if each.planned), width)


def _by_document(scenarios: Iterable[Definition], width: int) -> Iterator[str]:
    groups: dict[str, list[Definition]] = {}
    for each in scenarios:
        groups.setdefault(each.document, []).append(each)
    for document, members in groups.items():
        yield f"{document}: {len(members)}"
        for each in sorted(members, key=lambda one: specification.order(one.identifier)):
            yield scenario_line(each.identifier, each.sentence, width)


def scenario_line(identifier: str, sentence: str, width: int) -> str:
    """Id and sentence on one line of at most `width` characters."""
    line = f"{identifier:<{_INDENT}}{sentence}"
    return line if len(line) <= width else f"{line[: width - 1]}…"
