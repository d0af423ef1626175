"""The tables that `make scenarios` prints."""

from __future__ import annotations

from tests.support.plugins import scenario_report
from tests.support.repository.specification import Definition

_WIDTH = 40
_SCENARIOS = (
    Definition(
        "A2", "reverser.md", 1, "Wrong credentials are reported and heal by themselves.", False
    ),
    Definition("A10", "reverser.md", 2, "A branch outside the list.", False),
    Definition("A52", "reverser.md", 3, "Encrypt.", True),
    Definition("S14", "attacks.md", 4, "A redirect gets no credential.", False),
)


def test_a_scenario_is_followed_by_its_tests_and_results() -> None:
    """In the order of ids, each sentence cut to the width, tests never."""
    results = {
        ("A10", "tests/a/test_branch.py::test_a_branch_that_is_not_allowed"): "failed",
        ("A2", "tests/a/test_b.py::test_b"): "passed",
        ("A2", "tests/a/test_a.py::test_a"): "skipped",
    }
    assert list(scenario_report.result_lines(results, _SCENARIOS, _WIDTH)) == [
        "A2    Wrong credentials are reported an…",
        "      tests/a/test_a.py::test_a  skipped",
        "      tests/a/test_b.py::test_b  passed",
        "A10   A branch outside the list.",
        "      tests/a/test_branch.py::test_a_branch_that_is_not_allowed  failed",
    ]


def test_cases_of_one_test_are_counted() -> None:
    """A parametrized test is one line, with how many of its cases ended how."""
    results = {("A10", f"test_a.py::test_a[{case}]"): "passed" for case in range(3)}
    results["A10", "test_a.py::test_a[x]"] = "failed"
    _, line = scenario_report.result_lines(results, _SCENARIOS, _WIDTH)
    assert line == "      test_a.py::test_a  1 failed, 3 passed"


def test_an_id_without_a_definition_is_shown_as_such() -> None:
    """The table is complete even if a document is not."""
    first, _ = scenario_report.result_lines({("A3", "test"): "passed"}, _SCENARIOS, _WIDTH)
    assert first == "A3    (not defined in docs/spec)"


def test_scenarios_without_a_test_are_listed_by_document() -> None:
    """Planned ones are not among them."""
    assert list(scenario_report.untested_lines(_SCENARIOS, {"A10"}, _WIDTH)) == [
        "reverser.md: 1",
        "A2    Wrong credentials are reported an…",
        "attacks.md: 1",
        "S14   A redirect gets no credential.",
    ]


def test_planned_scenarios_are_listed_separately() -> None:
    """Those that carry the mark, and no others."""
    assert list(scenario_report.planned_lines(_SCENARIOS, _WIDTH)) == [
        "reverser.md: 1",
        "A52   Encrypt.",
    ]
