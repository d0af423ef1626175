"""Reconcile requests."""

from __future__ import annotations

import pytest

from windlass.runtime import status

OURS, FLUX = status.ANNOTATIONS


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
    """Times win over other texts, later times over earlier ones; of texts ours wins."""
    assert status.newest_request(annotations) == value


def test_a_request_is_pending_until_it_is_acknowledged() -> None:
    """Pending means that the newest value is not the handled one."""
    annotations = {OURS: "b"}
    assert status.pending_request({}, annotations) == "b"
    assert status.pending_request({"lastHandledReconcileAt": "a"}, annotations) == "b"
    assert status.pending_request({"lastHandledReconcileAt": "b"}, annotations) is None
    assert status.pending_request({"lastHandledReconcileAt": "b"}, {}) is None


def test_only_the_request_annotations_are_read() -> None:
    """Other annotations, and invalid values, are not requests."""
    obj = {"metadata": {"annotations": {OURS: "a", FLUX: 5, "x": "y"}}}
    assert status.object_annotations(obj) == {OURS: "a"}
    assert status.object_annotations({"metadata": {"annotations": None}}) == {}
    assert status.object_annotations({}) == {}
