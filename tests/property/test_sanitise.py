"""Cleaning is total, pure and idempotent on any object."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.reverser.decide import digest, noise, sanitise

FIELDS = st.sampled_from([
    "name", "namespace", "uid", "labels", "annotations", "managedFields", "ownerReferences",
    "spec", "template", "metadata", "creationTimestamp", "status", "ports", "port", "nodePort",
    "clusterIP", "clusterIPs", "claimRef", "finalizers", "secrets", "selector", "manualSelector",
    "volumeClaimTemplates", "aggregationRule", "rules", "job-name", "controller", "fieldsV1",
    "f:spec", "f:clusterIP", "manager", "kubectl.kubernetes.io/x", "type", "data", "x",
])  # fmt: skip
LEAF = st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.sampled_from(["None", "a", ""]))
JSON = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=5)
    ),
    max_leaves=20,
)
TYPE = st.sampled_from([
    ("v1", "Service"), ("v1", "PersistentVolumeClaim"), ("v1", "PersistentVolume"),
    ("v1", "ServiceAccount"), ("v1", "Namespace"), ("v1", "Node"), ("v1", "Pod"),
    ("apps/v1", "StatefulSet"), ("batch/v1", "Job"), ("v1", "ConfigMap"), ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("example.org/v1", "Service"), ("apiregistration.k8s.io/v1", "APIService"),
])  # fmt: skip
TEXTS = st.dictionaries(st.one_of(FIELDS, st.text(max_size=8)), st.text(max_size=8), max_size=3)
METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from(["default", "x", "kubernetes"])},
    optional={
        "namespace": st.just("default"),
        "uid": st.just("u"),
        "labels": st.one_of(st.none(), TEXTS),
        "annotations": st.one_of(st.none(), TEXTS),
        "managedFields": JSON,
        "ownerReferences": JSON,
    },
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """An object of some type, its body made of meaningful keys and nonsense values."""
    api_version, kind = draw(TYPE)
    body = draw(st.dictionaries(FIELDS.filter(lambda key: key != "metadata"), JSON, max_size=6))
    return {"apiVersion": api_version, "kind": kind, "metadata": draw(METADATA), **body}


@given(obj=objects())
@settings(max_examples=200, deadline=None)
def test_cleaning_is_pure_and_idempotent(obj: dict[str, Any]) -> None:
    """No shape breaks it, the input stays as it was, twice is once."""
    before = copy.deepcopy(obj)
    cleaned = sanitise.cleaned(obj)
    assert obj == before
    assert sanitise.cleaned(cleaned) == cleaned
    assert digest.digest(sanitise.cleaned(before)) == digest.digest(cleaned)
    assert "status" not in cleaned
    assert cleaned["metadata"].keys() <= {"name", "namespace", "labels", "annotations"}


@given(obj=objects())
@settings(max_examples=120, deadline=None)
def test_judging_never_fails(obj: dict[str, Any]) -> None:
    """Noise and ownership are decided on any shape, without changing it."""
    before = copy.deepcopy(obj)
    assert noise.reason(obj) is None or noise.reason(obj)
    assert sanitise.controller_owned(obj) in (True, False)
    assert obj == before


@given(obj=objects())
@settings(max_examples=200, deadline=None)
def test_custom_kinds_lose_nothing_but_status(obj: dict[str, Any]) -> None:
    """Of a kind without rules every top-level key but status is kept."""
    obj |= {"apiVersion": "example.org/v1", "kind": "Thing"}
    cleaned = sanitise.cleaned(obj)
    assert cleaned.keys() == obj.keys() - {"status"}
