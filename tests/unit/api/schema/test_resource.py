"""Decoding: valid typed values, or an error that names the field and no value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from tests.support.cluster.api_kinds import get_kind
from tests.unit.api.corpus import cases
from tests.unit.api.spec_cases import CANARY, GOOD, Case
from windlass.api.kinds.gitdestination import GitDestination
from windlass.api.kinds.gitrepoconfig import Committer, GitRepoConfig
from windlass.api.kinds.registry import KINDS
from windlass.api.kinds.watchrules import ClusterWatchRule, WatchRule
from windlass.base.errors import Stalled
from windlass.objects.names import Key

ADDRESSES = {
    "GitRepoConfig": {"repoUrl": "repoUrl"},
    "IgnitionSync": {"git.repo": "repo"},
    "Project": {"sources.0.repositoryUrl": "repositoryUrl", "source": "source"},
}


def _raw(spec: Any, **more: Any) -> bytes:
    return json.dumps({"metadata": {"name": "x"}, "spec": spec} | more).encode()


def test_metadata_and_defaults() -> None:
    """A repository decodes with its identity and its defaults."""
    metadata = {
        "name": "infra",
        "namespace": "team-a",
        "uid": "u-1",
        "generation": 3,
        "resourceVersion": "42",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T03:04:06Z",
        "annotations": {"windlass.dev/requestedAt": "now"},
        "managedFields": [{}],
    }
    repo = GitRepoConfig.decode(_raw(GOOD["GitRepoConfig"], metadata=metadata))
    assert repo.key == Key("team-a", "infra")
    assert repo.metadata.generation == 3
    assert repo.metadata.resource_version == "42"
    assert repo.metadata.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert repo.metadata.deletion_timestamp is not None
    assert repo.metadata.annotations == {"windlass.dev/requestedAt": "now"}
    assert repo.spec.host_key_verification == "Strict"
    assert repo.spec.secret_ref is None
    assert repo.spec.allowed_namespaces == ()
    assert repo.spec.commit.committer == Committer(
        name="windlass", email="noreply@windlass.invalid"
    )


def test_references_have_a_namespace() -> None:
    """A reference without namespace is in the referrer's own."""
    destination = GitDestination.decode(_raw(GOOD["GitDestination"]))
    assert destination.spec.repo_ref.namespace_from("team-a") == "team-a"
    rule = ClusterWatchRule.decode(_raw(GOOD["ClusterWatchRule"]))
    assert rule.spec.destination_ref.namespace_from("") == "windlass-system"


def test_omitted_resources_differ_from_none_selected() -> None:
    """An entry that omits resources differs from one that lists them."""
    rule = WatchRule.decode(_raw(GOOD["WatchRule"]))
    (item,) = rule.spec.rules
    assert item.resources is None
    assert item.operations == ()
    assert item.include_owned is False


def test_every_case_of_the_corpus() -> None:
    """Decoding accepts the good values and refuses the bad ones with the reason of the kind."""
    wrong = [str(trial) for trial in cases() if _accepts(trial) != trial.good]
    assert wrong == []


def _accepts(trial: Case) -> bool:
    try:
        get_kind(trial.kind).resource.decode(_raw(trial.spec))
    except Stalled as refusal:
        return refusal.reason != get_kind(trial.kind).resource.invalid_reason
    return True


@pytest.mark.scenario("A9", "G2", "E5")
def test_refusals_name_the_field_and_hold_no_token() -> None:
    """Whatever is wrong with an address, the error names the field and not the value."""
    for trial in cases():
        field = ADDRESSES.get(trial.kind, {}).get(trial.field)
        if trial.good or field is None:
            continue
        with pytest.raises(Stalled) as caught:
            get_kind(trial.kind).resource.decode(_raw(trial.spec))
        assert field in str(caught.value)
        assert CANARY not in str(caught.value)
        assert CANARY not in str(caught.value.__cause__ or "")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (GOOD["GitRepoConfig"] | {"secretRef": {"name": 1}}, "spec.secretRef.name:"),
        (GOOD["GitRepoConfig"] | {"allowedBranches": ["a..b"]}, "spec.allowedBranches[0]:"),
        (GOOD["GitRepoConfig"] | {"hostKeyVerification": "Off"}, "spec.hostKeyVerification:"),
        ({"allowedBranches": ["main"]}, "spec: repoUrl is required"),
        (None, "spec:"),
        ("x", "spec:"),
    ],
)
def test_paths_of_errors(spec: Any, path: str) -> None:
    """An error begins with the path in the manifest."""
    with pytest.raises(Stalled) as caught:
        GitRepoConfig.decode(_raw(spec))
    assert caught.value.message.startswith(path)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'{"spec": {}}', b"\xff", b'{"metadata":{"name":"\xff"}}'],
)
def test_unreadable_objects_are_refused(raw: bytes) -> None:
    """Bytes that are not an object become the same kind of error."""
    with pytest.raises(Stalled, match="SpecInvalid"):
        GitRepoConfig.decode(raw)


def test_deep_nesting_is_refused() -> None:
    """A deeply nested object is refused, not a crash."""
    raw = b'{"metadata":{"name":"x"},"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(Stalled, match="SpecInvalid"):
        GitRepoConfig.decode(raw)


def test_deep_nesting_of_a_parsed_object_is_refused() -> None:
    """A parser may read what cannot be written again: the same error, not a crash."""
    raw = b'{"metadata":{"name":"x"},"spec":' + b"[" * 1_020 + b"]" * 1_020 + b"}"
    with pytest.raises(Stalled, match="SpecInvalid"):
        GitRepoConfig.from_object(orjson.loads(raw))


def test_long_lists_of_errors_are_cut() -> None:
    """Only the first problems are listed, with the count of the rest."""
    spec = GOOD["GitRepoConfig"] | {"allowedBranches": [f"a..{n}" for n in range(60)]}
    with pytest.raises(Stalled, match="and 55 more"):
        GitRepoConfig.decode(_raw(spec))


@pytest.mark.parametrize("status", [None, 1, "x", {"objects": -1}, {"conditions": [{}]}])
def test_a_forged_status_counts_as_empty(status: Any) -> None:
    """An invalid status never keeps an object from being decoded."""
    destination = GitDestination.decode(_raw(GOOD["GitDestination"], status=status))
    assert destination.status.objects == 0
    assert destination.status.conditions == ()


def test_status_gives_conditions_as_values() -> None:
    """Conditions of a status are found by type."""
    row = {
        "type": "Ready",
        "status": "False",
        "reason": "BranchNotFound",
        "message": "ghost",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 2,
    }
    repo = GitRepoConfig.decode(_raw(GOOD["GitRepoConfig"], status={"conditions": [row]}))
    ready = repo.status.condition("Ready")
    assert ready is not None
    assert ready.as_object() == row
    assert repo.status.condition("Stalled") is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_samples_survive_the_round_trip(kind: Any) -> None:
    """A decoded sample is encoded to the sample again."""
    raw = json.dumps(kind.sample).encode()
    value = kind.resource.decode(raw)
    written = value.as_object()
    assert written["kind"] == kind.name
    assert written["apiVersion"] == kind.gvk.api_version
    assert written["spec"] == kind.sample["spec"]
    assert kind.resource.decode(value.encode()) == value
