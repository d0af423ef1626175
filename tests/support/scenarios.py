"""Prints which acceptance scenarios were proven, by which test, with what result.

A pytest plugin: `--scenarios` adds a table of scenario id, test and result to the end
of a run. The ids come from the `scenario` marker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

_PROPERTY = "scenario"
_ID = re.compile(r"([A-Za-z]*)(\d*)(.*)")


@dataclass
class Ledger:
    """The worst result seen per scenario and test."""

    results: dict[tuple[str, str], str] = field(default_factory=dict)

    def record(self, scenario: str, test: str, report: pytest.TestReport) -> None:
        known = self.results.get((scenario, test))
        if report.outcome != "passed":
            self.results[scenario, test] = report.outcome
        elif known is None and report.when == "call":
            self.results[scenario, test] = "passed"


_LEDGER = pytest.StashKey[Ledger]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--scenarios`."""
    parser.addoption(
        "--scenarios", action="store_true", help="print scenario id, test and result at the end"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin an empty ledger and listen to reports."""
    config.stash[_LEDGER] = Ledger()
    config.pluginmanager.register(_Listener(config.stash[_LEDGER]), "windlass-scenarios")


class _Listener:
    """Reads the ids off the reports, so that it also works where tests ran elsewhere."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == _PROPERTY:
                self._ledger.record(str(value), report.nodeid, report)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write the ids of the marker where reports carry them along."""
    for item in items:
        for marker in item.iter_markers(_PROPERTY):
            item.user_properties.extend((_PROPERTY, identifier) for identifier in marker.args)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table."""
    if not config.getoption("--scenarios"):
        return
    terminalreporter.section("scenarios")
    for line in rows(config.stash[_LEDGER].results):
        terminalreporter.write_line(line)


def rows(results: dict[tuple[str, str], str]) -> list[str]:
    """The table, A2 before A10."""
    ordered = sorted(results.items(), key=lambda item: (_order(item[0][0]), item[0][1]))
    widths = [max((len(key[0]) for key in results), default=2), 7]
    return [
        f"{scenario:<{widths[0]}}  {result:<{widths[1]}}  {test}"
        for (scenario, test), result in ordered
    ]


def _order(identifier: str) -> tuple[str, int, str]:
    match = _ID.fullmatch(identifier)
    assert match is not None
    return match[1], int(match[2] or 0), match[3]
