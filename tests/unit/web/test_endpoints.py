"""Checks behind the probes."""

from __future__ import annotations

from windlass.web import endpoints


def test_only_failing_checks_are_named() -> None:
    """A check that passes is omitted, one that fails has its sentence."""
    checks = {"leader": lambda: None, "caches": lambda: "configmaps are still loading"}
    assert endpoints.failed_checks(checks) == {"caches": "configmaps are still loading"}


def test_broken_check_counts_as_failing() -> None:
    """A check that raises fails without the error's text."""

    def broken() -> str | None:
        raise RuntimeError("token=hunter2")

    assert endpoints.failed_checks({"a": broken}) == {
        "a": "internal error in the check (RuntimeError); see the log"
    }
