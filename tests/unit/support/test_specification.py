"""What defines an id, what marks it as planned, and what cites it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import specification
from tests.support.repository.specification import Definition


def _read(*lines: str) -> list[Definition]:
    return list(specification.definitions("\n".join(lines), "page.md"))


def _ids(*lines: str) -> list[str]:
    return [each.identifier for each in _read(*lines)]


@pytest.mark.parametrize(
    "line",
    [
        "**RUL-1** One rule selects.",
        "- **RUL-1** One rule selects.",
        "1. **RUL-1** One rule selects.",
        "| **RUL-1** | One rule selects. |",
    ],
)
def test_a_bold_id_defines_a_statement(line: str) -> None:
    """At the start of a paragraph, a list item or a table cell."""
    assert _read(line) == [Definition("RUL-1", "page.md", 1, "One rule selects.", planned=False)]


def test_a_line_may_define_several_statements() -> None:
    """Each has the text up to the next one; plain mentions define nothing."""
    first, second = _read("**RUL-1** Selects, see RUL-3. **RUL-2 (SHOULD)** Leaves out.")
    assert (first.identifier, first.sentence) == ("RUL-1", "Selects, see RUL-3.")
    assert (second.identifier, second.sentence) == ("RUL-2", "Leaves out.")


@pytest.mark.parametrize(
    "line",
    [
        "| A31 | Given, When, Then. |",
        "| **A31** | Given, | When, Then. |",
        "- **A31** Given, When, Then.",
    ],
)
def test_a_row_or_a_list_item_defines_a_scenario(line: str) -> None:
    """The sentence is everything behind the id."""
    sentence = "Given, When, Then."
    assert _read(line) == [Definition("A31", "page.md", 1, sentence, planned=False)]


def test_other_rows_and_mentions_define_nothing() -> None:
    """Headers, rules, rows of other tables and ids inside a sentence."""
    assert (
        _ids("| id | scenario |", "|---|---|", "| A31, A32 | x |", "A31 holds", "| x | A31 |") == []
    )


def test_escaped_bars_stay_inside_a_cell() -> None:
    """Only a bare bar ends a cell."""
    assert specification.cells(r"| A31 | a \| b |") == ["A31", r"a \| b"]


def test_code_blocks_define_nothing() -> None:
    """An example of the format is no definition."""
    assert _ids("```", "| A31 | x |", "**RUL-1** x", "```", "| A32 | y |") == ["A32"]


def test_promises_are_ids_too() -> None:
    """With or without the letter of their capability."""
    assert _ids("| **P6** | **No guess**: never |", "- **GP6** Nothing else.") == ["P6", "GP6"]


@pytest.mark.parametrize(
    "line",
    [
        "**RUL-1** *(planned)* Later.",
        "| A31 | *(planned)* Later. |",
        "- **A31** *(planned)* Later.",
    ],
)
def test_the_mark_behind_an_id_means_planned(line: str) -> None:
    """The sentence is the one without the mark."""
    (found,) = _read(line)
    assert (found.planned, found.sentence) == (True, "Later.")


def test_the_mark_inside_a_sentence_plans_only_a_part() -> None:
    """A scenario that partly holds is not planned."""
    (found,) = _read("| A31 | Holds; *(planned)* more. |")
    assert not found.planned


def test_a_planned_heading_covers_its_section() -> None:
    """Up to the next heading of its own level or above, lower ones included."""
    found = _read(
        "## One *(planned)*",
        "| A1 | x |",
        "### Part",
        "| A2 | x |",
        "## Two",
        "| A3 | x |",
        "### Part *(planned)*",
        "| A4 | x |",
        "# Three",
        "| A5 | x |",
    )
    assert [each.identifier for each in found if each.planned] == ["A1", "A2", "A4"]


def test_all_pages_but_the_readme_are_read(tmp_path: Path) -> None:
    """The page that explains the format has ids without defining them."""
    (tmp_path / "README.md").write_text("| A1 | x |\n")
    (tmp_path / "b.md").write_text("\n| A2 | x |\n")
    (tmp_path / "a.md").write_text("| A3 | x |\n")
    found = specification.read(tmp_path)
    assert [(each.document, each.line, each.identifier) for each in found] == [
        ("a.md", 1, "A3"),
        ("b.md", 2, "A2"),
    ]


def test_names_of_standards_cite_nothing() -> None:
    """UTF-8 has the form of a statement id."""
    text = "UTF-8, SHA-256, AES-128, RSA-1024, DNS-1123, CVE-2024, RUL-1, XRUL-1, RUL-1x"
    assert specification.cited_statements(text) == {"RUL-1"}


def test_markers_cite_scenarios_anywhere() -> None:
    """On a test, on a module, on one parameter; comments and strings do not count."""
    source = """
pytestmark = [pytest.mark.cluster, pytest.mark.scenario("A1")]

@pytest.mark.scenario("A2", "G3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.scenario("E4"))])
def test() -> None:
    "pytest.mark.scenario('A5')"  # pytest.mark.scenario("A6")
"""
    assert specification.cited_scenarios(source) == {"A1", "A2", "G3", "E4"}


def test_ids_are_ordered_by_their_number() -> None:
    """A2 comes before A10, and letters before numbers."""
    names = ["S1", "A10", "RUL-10", "A2", "RUL-9"]
    assert sorted(names, key=specification.order) == ["A2", "A10", "RUL-9", "RUL-10", "S1"]
