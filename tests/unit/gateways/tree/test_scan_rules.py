"""Which scans are required, in which order, and their combined result."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import scan_rules
from windlass.gateways.tree.scan_rules import (
    ScanKind,
    ScanKindResult,
    ScanMode,
    ScanOrder,
    ScanState,
)

PROJECTS, CONFIG = ScanKind.PROJECTS, ScanKind.CONFIG


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([], set()),
        (["projects/line/project.json"], {PROJECTS}),
        (["config/resources/core/a/config.json"], {CONFIG}),
        (["config/resources/core/a", "projects/a/b"], {PROJECTS, CONFIG}),
        (["user-lib/modules/a.modl", "projects-old/a", "config"], set()),
    ],
)
def test_touched_kinds_are_scanned(paths: list[str], wanted: set[ScanKind]) -> None:
    """No other kind is."""
    assert scan_rules.required_scans(paths) == wanted


def test_scans_follow_the_order_of_the_policy() -> None:
    """In whatever order the kinds are listed."""
    kinds = [CONFIG, PROJECTS, CONFIG]
    assert scan_rules.sort_scans(kinds, ScanOrder.PROJECTS_CONFIG) == (PROJECTS, CONFIG)
    assert scan_rules.sort_scans(kinds, ScanOrder.CONFIG_PROJECTS) == (CONFIG, PROJECTS)
    assert scan_rules.sort_scans([CONFIG], ScanOrder.PROJECTS_CONFIG) == (CONFIG,)


def test_verified_and_unverified_scans_succeed() -> None:
    """Only the text distinguishes them."""
    results = [
        ScanKindResult(PROJECTS, ScanState.VERIFIED, 200),
        ScanKindResult(CONFIG, ScanState.UNVERIFIED, 202),
    ]
    result = scan_rules.combine_results(results, ScanMode.REQUIRED)
    assert result.text == "projects=200 config=202(unverified)"
    assert (result.reason, result.message, result.warning) == ("", "", "")
    assert result.pending == frozenset()
    assert result.retry_seconds is None


def test_a_failed_scan_and_all_after_it_stay_pending() -> None:
    """If scans are required."""
    results = [
        ScanKindResult(PROJECTS, ScanState.FAILED, 401, "ScanUnauthorized", "no such token"),
        scan_rules.skipped_result(CONFIG),
    ]
    result = scan_rules.combine_results(results, ScanMode.REQUIRED)
    assert result.pending == {PROJECTS, CONFIG}
    assert result.reason == "ScanUnauthorized"
    assert result.message == "projects scan: no such token"
    assert result.text == "projects=401 config=skipped"
    assert result.retry_seconds == 300


def test_a_completed_scan_is_not_repeated() -> None:
    """Only the incomplete one stays pending."""
    results = [
        ScanKindResult(PROJECTS, ScanState.VERIFIED, 200),
        ScanKindResult(CONFIG, ScanState.INCOMPLETE, 200, "ScanIncomplete", "still at it"),
    ]
    result = scan_rules.combine_results(results, ScanMode.REQUIRED)
    assert result.pending == {CONFIG}
    assert result.text == "projects=200 config=200(incomplete)"
    assert result.retry_seconds is None


def test_a_failure_under_best_effort_is_a_warning() -> None:
    """No scan stays pending."""
    failed = ScanKindResult(PROJECTS, ScanState.FAILED, 0, "GatewayUnreachable", "refused")
    assert scan_rules.continues_after(failed, ScanMode.BEST_EFFORT)
    assert not scan_rules.continues_after(failed, ScanMode.REQUIRED)
    result = scan_rules.combine_results([failed], ScanMode.BEST_EFFORT)
    assert (result.reason, result.pending) == ("", frozenset())
    assert result.warning == "GatewayUnreachable: projects scan: refused"
    assert result.text == "projects: no response"


def test_disabled_scans_are_reported_as_off() -> None:
    """Nothing is pending."""
    assert scan_rules.disabled_result().text == "off"
    assert not scan_rules.disabled_result().pending


def test_a_long_message_is_truncated() -> None:
    """A message fits into the status entry."""
    failed = ScanKindResult(PROJECTS, ScanState.FAILED, 500, "ScanFailed", "x" * 2000)
    assert len(scan_rules.combine_results([failed], ScanMode.REQUIRED).message) == 512
