"""Which scans are wanted, in which order, and what they mean together."""

from __future__ import annotations

import pytest

from windlass.gateways.decide import scans
from windlass.gateways.decide.scans import KindResult, ScanKind, ScanMode, ScanOrder, ScanState

PROJECTS, CONFIG = ScanKind.PROJECTS, ScanKind.CONFIG


@pytest.mark.parametrize(
    ("paths", "pending", "wanted"),
    [
        ([], [], set()),
        (["projects/line/project.json"], [], {PROJECTS}),
        (["config/resources/core/a/config.json"], [], {CONFIG}),
        (["config/resources/core/a", "projects/a/b"], [], {PROJECTS, CONFIG}),
        (["user-lib/modules/a.modl", "projects-old/a", "config"], [], set()),
        ([], ["config"], {CONFIG}),
        (["projects/a/b"], ["config", "unheard-of"], {PROJECTS, CONFIG}),
    ],
)
def test_wanted(paths: list[str], pending: list[str], wanted: set[ScanKind]) -> None:
    """Touched kinds and owed kinds are scanned, and nothing else is."""
    assert scans.wanted(paths, pending) == wanted


def test_order() -> None:
    """The policy's order holds, whatever order the kinds come in."""
    kinds = [CONFIG, PROJECTS, CONFIG]
    assert scans.ordered(kinds, ScanOrder.PROJECTS_CONFIG) == (PROJECTS, CONFIG)
    assert scans.ordered(kinds, ScanOrder.CONFIG_PROJECTS) == (CONFIG, PROJECTS)
    assert scans.ordered([CONFIG], ScanOrder.PROJECTS_CONFIG) == (CONFIG,)


def test_success() -> None:
    """Verified and unverified scans are done; only the text tells them apart."""
    done = [
        KindResult(PROJECTS, ScanState.VERIFIED, 200),
        KindResult(CONFIG, ScanState.UNVERIFIED, 202),
    ]
    result = scans.concluded(done, ScanMode.REQUIRED)
    assert result.text == "projects=200 config=202(unverified)"
    assert (result.reason, result.message, result.warning) == ("", "", "")
    assert result.pending == frozenset()
    assert result.after is None


def test_failure_keeps_itself_and_the_rest_pending() -> None:
    """A required scan that fails leaves owed whatever was not done."""
    results = [
        KindResult(PROJECTS, ScanState.FAILED, 401, "ScanUnauthorized", "no such token"),
        scans.skipped(CONFIG),
    ]
    result = scans.concluded(results, ScanMode.REQUIRED)
    assert result.pending == {PROJECTS, CONFIG}
    assert result.reason == "ScanUnauthorized"
    assert result.message == "projects scan: no such token"
    assert result.text == "projects=401 config=skipped"
    assert result.after == 300


def test_second_failure_leaves_the_first_done() -> None:
    """Only what is not done is repeated."""
    results = [
        KindResult(PROJECTS, ScanState.VERIFIED, 200),
        KindResult(CONFIG, ScanState.INCOMPLETE, 200, "ScanIncomplete", "still at it"),
    ]
    result = scans.concluded(results, ScanMode.REQUIRED)
    assert result.pending == {CONFIG}
    assert result.text == "projects=200 config=200(incomplete)"
    assert result.after is None


def test_best_effort_warns_only() -> None:
    """A failure under BestEffort leaves nothing owed, but is told."""
    failed = KindResult(PROJECTS, ScanState.FAILED, 0, "GatewayUnreachable", "refused")
    assert scans.goes_on(failed, ScanMode.BEST_EFFORT)
    assert not scans.goes_on(failed, ScanMode.REQUIRED)
    result = scans.concluded([failed], ScanMode.BEST_EFFORT)
    assert (result.reason, result.pending) == ("", frozenset())
    assert result.warning == "GatewayUnreachable: projects scan: refused"
    assert result.text == "projects=unanswered"


def test_off_says_so() -> None:
    """Without scans there is nothing owed and nothing wrong."""
    assert scans.off().text == "off"
    assert not scans.off().pending


def test_message_is_cut() -> None:
    """A message fits into the status entry."""
    failed = KindResult(PROJECTS, ScanState.FAILED, 500, "ScanFailed", "x" * 2000)
    assert len(scans.concluded([failed], ScanMode.REQUIRED).message) == 512
