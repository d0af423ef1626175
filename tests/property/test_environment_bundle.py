"""For any project files a bundle is refused with a reason, or meets every rule."""

from __future__ import annotations

import json
import random
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET
from tests.support.strategies.batched import (
    balanced_column,
    choices,
    maps_of_json,
    row,
    substitute_numbers,
    values_of_json,
)
from windlass.api.install.environment_objects import ALLOWED_KINDS, ENVIRONMENT_UID
from windlass.environments import ownership, phase
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle import field_rules, kinds, shapes
from windlass.environments.bundle.bundle import Bundle, BundleRefused
from windlass.environments.bundle.labeling import PRUNE, RECREATE
from windlass.environments.render import manifests
from windlass.environments.render.manifests import RenderRefused
from windlass.objects.names import JSON, Object

FIELDS = (
    "spec", "metadata", "template", "jobTemplate", "selector", "matchLabels", "labels",
    "annotations", "name", "namespace", "containers", "initContainers", "volumes",
    "volumeClaimTemplates", "ephemeral", "projected", "sources", "serviceAccountToken", "ports",
    "resources", "requests", "limits", "cpu", "securityContext", "capabilities", "livenessProbe",
    "httpGet", "host", "hostPort", "hostNetwork", "automountServiceAccountToken", "hostPath",
    "privileged", "type", "data", "stringData", "scaleTargetRef", "items", "ownerReferences",
    "status",
)  # fmt: skip
TEXTS = ("", "a", "1", "1Gi", "YQ==", "ClusterIP", "NodePort", "default", "\ud800")
LABELS = ("app", "catalyst.dev/x", ENVIRONMENT_UID, "windlass.dev/x", "pod-security.x/y")
MARKED = [
    dict(zip(names, claimed, strict=True))
    for count in range(4)
    for names in combinations(LABELS, count)
    for claimed in product("ab", repeat=count)
]
# A number stands for the leaf of that number that is made up.
LEAVES = balanced_column([None], [False, True], range(3), TEXTS, MARKED)
GENERATED = st.tuples(st.integers(), st.floats(), st.text(max_size=5))


VALUES = st.builds(substitute_numbers, values_of_json(LEAVES, FIELDS, 40), GENERATED)
MAPS = st.builds(substitute_numbers, maps_of_json(LEAVES, FIELDS, 60), GENERATED)
KINDS = sorted((allowed.gvr.api_version, kind) for (_, kind), allowed in ALLOWED_KINDS.items())
TYPES = [
    *KINDS,
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "Namespace"),
    ("v1", "List"),
    ("autoscaling/v1", "HorizontalPodAutoscaler"),
]
NAMES = ["a", "b", "web", "default", "windlass-inventory", "A b", "x" * 300]


def _named(claimed: tuple[Any, ...], obj: Object, metadata: Any) -> Object:
    (api_version, kind), name = claimed
    if isinstance(metadata, dict):
        metadata = {"name": name, **metadata}
    return {**obj, "apiVersion": api_version, "kind": kind, "metadata": metadata}


# An object of a known type with any content below.
ANYTHING = st.builds(_named, row(TYPES, NAMES), MAPS, MAPS | VALUES)


def _bent(claimed: tuple[Any, ...], way: list[int], value: Any) -> Object:
    """An object that breaks no rule, with one value put somewhere in it."""
    sound, name, is_known, field = claimed
    obj: Object = json.loads(SPELLED[sound])
    obj["metadata"]["name"] = name
    parent: Any = obj
    for turn in way:
        inside = list(parent.values() if isinstance(parent, dict) else parent)
        below = [value for value in inside if isinstance(value, dict | list) and value]
        if not below:
            break
        parent = below[turn % len(below)]
    if isinstance(parent, dict):
        known = sorted(parent)
        parent[known[field % len(known)] if is_known else FIELDS[field % len(FIELDS)]] = value
    else:
        parent[field % len(parent)] = value
    return obj


SCALER_SPEC = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
SOUND = [
    written.deployment(),
    written.stateful_set(volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": {}}]),
    written.job(),
    written.cron_job(),
    written.service(ports=[{"port": 80}]),
    written.make_object("v1", "Secret", "s", stringData={"a": "b"}, data={"c": "ZA=="}),
    written.make_object("v1", "ConfigMap", "c", data={"a": "b"}),
    written.make_object("v1", "ServiceAccount", "worker"),
    written.make_object("v1", "PersistentVolumeClaim", "data", spec={}),
    written.make_object("v1", "Pod", "p", spec=written.pod_spec(serviceAccountName="worker")),
    written.make_object("autoscaling/v2", "HorizontalPodAutoscaler", "h", spec=SCALER_SPEC),
    written.make_object("policy/v1", "PodDisruptionBudget", "b", spec={"minAvailable": 1}),
    written.deployment("limits", written.container(resources={"requests": {"cpu": 1}})),
]
SPELLED = [json.dumps(one) for one in SOUND]
BENT = st.builds(
    _bent,
    row(range(len(SOUND)), "abcdefgh", [False, True], range(240)),
    choices(range(60), max_size=8),
    VALUES,
)
PROJECTS = st.lists(st.sampled_from(SOUND) | BENT, max_size=4, unique_by=id) | st.lists(
    BENT | ANYTHING, max_size=3
)


def _attempt(objects: list[Object]) -> Bundle | BundleRefused | RenderRefused:
    try:
        return written.build_bundle(objects, TARGET)
    except (BundleRefused, RenderRefused) as refusal:
        return refusal


def _marked(obj: Object) -> bool:
    metadata = obj["metadata"]
    return (
        metadata["namespace"] == TARGET.namespace
        and OWNER.labels.items() <= metadata["labels"].items()
        and OWNER.annotations.items() <= metadata["annotations"].items()
        and not metadata.keys() & {"ownerReferences", "finalizers", "uid", "managedFields"}
    )


def _is_clean(claimed: dict[str, str], ours: dict[str, str]) -> bool:
    """Whether no label or annotation of the operator is set by the project."""
    kept = {PRUNE, RECREATE, bundles.APPLIED_HASH}
    return all(
        name in kept or ours.get(name) == value
        for name, value in claimed.items()
        if name.startswith(ownership.OPERATOR_PREFIXES)
    )


@given(PROJECTS)
@example([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": 5}}])
@example([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": None}])
@example([{"apiVersion": "v1", "kind": "Pod", "metadata": []}])
@example([{}])
def test_nothing_crashes_and_every_refusal_is_clear(objects: list[Object]) -> None:
    """A problem is reported with an object and a reason, in a text that can be stored."""
    found = _attempt(objects)
    if not isinstance(found, Bundle):
        assert found.reason in phase.TERMINAL_REASONS[phase.DEPLOYMENT]
        assert len(str(found).encode()) < 32_768
    if isinstance(found, BundleRefused):
        assert all(one.where and one.why for one in found.violations)


@given(PROJECTS)
@example([written.deployment("a", written.pod_spec(automountServiceAccountToken=None))])
@example(
    [
        written.make_object("v1", "ConfigMap", "a")
        | {"metadata": {"name": "a", "labels": {"catalyst.dev/x": "y"}}}
    ]
)
def test_applied_objects_obey_every_rule_and_have_ownership_labels(objects: list[Object]) -> None:
    """In our namespace, with our field manager."""
    found = _attempt(objects)
    if not isinstance(found, Bundle):
        return
    accounts = frozenset(member.name for member in found.members if member.kind == "ServiceAccount")
    for member in found.members:
        obj = member.object
        assert _marked(obj)
        assert _is_clean(obj["metadata"]["labels"], OWNER.labels)
        assert _is_clean(obj["metadata"]["annotations"], OWNER.annotations)
        assert list(shapes.shape_faults(obj)) == []
        assert list(field_rules.field_violations(obj, accounts, written.CLUSTER_ACCESS)) == []
        assert not kinds.is_reserved(member.kind, member.name)
        spec = kinds.pod_spec(obj)
        assert spec is None or spec["automountServiceAccountToken"] is False
        for path in kinds.template_paths(obj):
            inner = kinds.map_at(obj, (*path, "metadata"))
            assert inner is not None
            assert OWNER.pod_labels.items() <= inner["labels"].items()
            assert _is_clean(inner["labels"], OWNER.pod_labels)


@given(PROJECTS, st.integers(0, 2**16))
def test_the_order_of_the_files_does_not_matter(objects: list[Object], seed: int) -> None:
    """Neither for applied nor for refused objects; and twice gives the same."""
    shuffled = list(objects)
    random.Random(seed).shuffle(shuffled)
    one, other = _attempt(objects), _attempt(shuffled)
    if isinstance(one, Bundle):
        assert one == other
        assert isinstance(other, Bundle)
        assert one.digest == other.digest
    else:
        assert str(one) == str(other)


@given(PROJECTS)
def test_an_applied_bundle_can_be_assembled_again(objects: list[Object]) -> None:
    """An assembled bundle is assembled to itself."""
    found = _attempt(objects)
    if isinstance(found, Bundle):
        again = _attempt([member.object for member in found.members])
        assert isinstance(again, Bundle)
        assert again.digest == found.digest


@given(PROJECTS)
def test_inputs_are_never_changed(objects: list[Object]) -> None:
    """A bundle shares no mutable value with its inputs."""
    before = repr(objects)
    _attempt(objects)
    assert repr(objects) == before


def _read(path: str, content: bytes) -> list[Object] | RenderRefused:
    try:
        return [written.object for written in manifests.objects({path: content})]
    except RenderRefused as refusal:
        return refusal


@given(st.lists(ANYTHING | VALUES, max_size=4))
def test_any_files_make_objects_or_a_refusal(documents: list[JSON]) -> None:
    """From the bytes of the repository on."""
    text = "\n---\n".join(json.dumps(document) for document in documents)
    found = _read("a.yaml", text.encode())
    if isinstance(found, RenderRefused):
        assert found.reason == "RenderFailed"
    else:
        _attempt(found)


@given(st.binary(max_size=200))
@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_any_bytes_make_objects_or_a_refusal(ending: str, content: bytes) -> None:
    """Also bytes that are not text."""
    found = _read(f"a.{ending}", content)
    assert found
    assert isinstance(found, list) or str(found)
