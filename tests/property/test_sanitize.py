"""Cleaning is total, pure and idempotent on any object."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies.batched import balanced_column, lists_of_json, maps_of_json, row, rows
from windlass.reverser.content import clean_object, noise, sanitize

FIELDS = (
    "name", "namespace", "uid", "labels", "annotations", "managedFields", "ownerReferences",
    "spec", "template", "metadata", "creationTimestamp", "status", "ports", "port", "nodePort",
    "clusterIP", "clusterIPs", "claimRef", "finalizers", "secrets", "selector", "manualSelector",
    "volumeClaimTemplates", "aggregationRule", "rules", "job-name", "controller", "fieldsV1",
    "f:spec", "f:clusterIP", "manager", "kubectl.kubernetes.io/x", "type", "data", "x",
)  # fmt: skip
LEAVES = balanced_column([None], [False, True], range(10), ["None", "a", ""])
BODIES = maps_of_json(LEAVES, FIELDS, 48)
TYPES = (
    ("v1", "Service"), ("v1", "PersistentVolumeClaim"), ("v1", "PersistentVolume"),
    ("v1", "ServiceAccount"), ("v1", "Namespace"), ("v1", "Node"), ("v1", "Pod"),
    ("apps/v1", "StatefulSet"), ("batch/v1", "Job"), ("v1", "ConfigMap"), ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("example.org/v1", "Service"), ("apiregistration.k8s.io/v1", "APIService"),
)  # fmt: skip
DRAWN_TEXTS = st.text(max_size=8)


def _texts(rows: list[tuple[Any, Any]], texts_drawn: tuple[str, ...]) -> dict[str, str]:
    """Names and texts, known ones and two generated ones."""
    known = (*FIELDS, *texts_drawn * 12)
    return {
        known[name % len(known)]: texts_drawn[number % len(texts_drawn)] for name, number in rows
    }


TEXTS = st.none() | st.builds(
    _texts, rows(range(256), range(2), max_size=3, usual=1), st.tuples(DRAWN_TEXTS, DRAWN_TEXTS)
)


def _object(
    drawn: tuple[Any, ...],
    labels: Any,
    annotations: Any,
    odd: list[Any],
    body: dict[str, Any],
) -> dict[str, Any]:
    """An object of some type, with meaningful keys and arbitrary values."""
    (api_version, kind), name, *there = drawn
    reported = {
        "namespace": "default",
        "uid": "u",
        "labels": labels,
        "annotations": annotations,
        "managedFields": odd[0] if odd else None,
        "ownerReferences": odd[1] if len(odd) > 1 else odd,
    }
    some = {
        field: value
        for (field, value), is_there in zip(reported.items(), there, strict=True)
        if is_there
    }
    body.pop("metadata", None)
    metadata = {"name": name, **some}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


OBJECTS = st.builds(
    _object,
    row(TYPES, ["default", "x", "kubernetes"], *[[False, True]] * 6),
    TEXTS,
    TEXTS,
    lists_of_json(LEAVES, FIELDS, 32),
    BODIES,
)


@given(obj=OBJECTS)
@settings(max_examples=200, deadline=None)
def test_cleaning_is_pure_and_idempotent(obj: dict[str, Any]) -> None:
    """No shape breaks it, the input is unchanged, twice equals once."""
    before = copy.deepcopy(obj)
    cleaned = sanitize.sanitize_object(obj)
    assert obj == before
    assert sanitize.sanitize_object(cleaned) == cleaned
    assert clean_object.content_digest(
        sanitize.sanitize_object(before)
    ) == clean_object.content_digest(cleaned)
    assert "status" not in cleaned
    assert cleaned["metadata"].keys() <= {"name", "namespace", "labels", "annotations"}


@given(obj=OBJECTS)
@settings(max_examples=120, deadline=None)
def test_judging_never_fails(obj: dict[str, Any]) -> None:
    """Noise and ownership are decided on any shape, without changing it."""
    before = copy.deepcopy(obj)
    assert noise.noise_reason(obj) is None or noise.noise_reason(obj)
    assert sanitize.is_controller_owned(obj) in (True, False)
    assert obj == before


@given(obj=OBJECTS)
@settings(max_examples=200, deadline=None)
def test_custom_kinds_lose_nothing_but_status(obj: dict[str, Any]) -> None:
    """Of a kind without rules every top-level key but status is kept."""
    obj |= {"apiVersion": "example.org/v1", "kind": "Thing"}
    cleaned = sanitize.sanitize_object(obj)
    assert cleaned.keys() == obj.keys() - {"status"}
