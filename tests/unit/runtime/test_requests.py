"""Reconcile requests."""

from __future__ import annotations

import pytest

from windlass.runtime import requests

OURS, FLUX = requests.ANNOTATIONS


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({OURS: ""}, None),
        ({OURS: "now!"}, "now!"),
        ({FLUX: "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z"),
        ({OURS: "2026-01-01T00:00:00Z", FLUX: "2026-01-02T00:00:00Z"}, "2026-01-02T00:00:00Z"),
        ({OURS: "2026-01-01T00:00:01Z", FLUX: "2026-01-01T01:00:00+01:00"}, "2026-01-01T00:00:01Z"),
        ({OURS: "again", FLUX: "2026-01-01T00:00:00.123456789Z"}, "2026-01-01T00:00:00.123456789Z"),
        ({OURS: "b", FLUX: "c"}, "b"),
        ({OURS: "2026-01-01", FLUX: "c"}, "2026-01-01"),
    ],
)
def test_the_newest_request_counts(annotations: dict[str, str], value: str | None) -> None:
    """Times beat words, later times beat earlier ones, among words ours beats the foreign one."""
    assert requests.newest(annotations) == value


def test_a_request_is_pending_until_it_is_acknowledged() -> None:
    """Pending means: the newest value is not the handled one."""
    annotations = {OURS: "b"}
    assert requests.pending({}, annotations) == "b"
    assert requests.pending({"lastHandledReconcileAt": "a"}, annotations) == "b"
    assert requests.pending({"lastHandledReconcileAt": "b"}, annotations) is None
    assert requests.pending({"lastHandledReconcileAt": "b"}, {}) is None


def test_only_the_request_annotations_are_read() -> None:
    """Other annotations, and odd values, are not requests."""
    obj = {"metadata": {"annotations": {OURS: "a", FLUX: 5, "x": "y"}}}
    assert requests.annotations_of(obj) == {OURS: "a"}
    assert requests.annotations_of({"metadata": {"annotations": None}}) == {}
    assert requests.annotations_of({}) == {}
