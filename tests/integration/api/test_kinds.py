"""The kinds on a real API server: accepted and refused values, and messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.api.server import Answer, Server
from tests.support.cluster.api_kinds import get_kind
from tests.unit.api.corpus import cases
from tests.unit.api.spec_cases import ABSENT, CANARY, GOOD, Case, case
from windlass.api.install import crd
from windlass.api.kinds.registry import KINDS
from windlass.base.errors import Stalled

pytestmark = pytest.mark.cluster

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

Judged = list[tuple[Case, Answer]]


def _path(kind: str, namespace: str) -> str:
    declared = get_kind(kind)
    within = f"/namespaces/{namespace}" if declared.namespaced else ""
    return f"/apis/{declared.gvk.api_version}{within}/{declared.plural}"


def _create(server: Server, namespace: str, kind: str, spec: Any, *, query: str) -> Answer:
    body = {
        "apiVersion": get_kind(kind).gvk.api_version,
        "kind": kind,
        "metadata": {"generateName": f"{namespace}-"},
        "spec": spec,
    }
    return server.post(_path(kind, namespace) + query, body)


def _try(server: Server, namespace: str, tested_case: Case) -> Answer:
    query = "?dryRun=All&fieldValidation=Strict"
    return _create(server, namespace, tested_case.kind, tested_case.spec, query=query)


def _code_accepts(tested_case: Case) -> bool:
    raw = json.dumps({"metadata": {"name": "x"}, "spec": tested_case.spec}).encode()
    try:
        get_kind(tested_case.kind).resource.decode(raw)
    except Stalled:
        return False
    return True


@pytest.fixture(scope="module")
def judged(server: Server, dry: str) -> Judged:
    """The server's verdict on every case: two thousand requests, sent once."""
    return [(tested_case, _try(server, dry, tested_case)) for tested_case in cases()]


def test_server_and_code_give_the_same_verdict(judged: Judged) -> None:
    """The API server and our code accept and refuse exactly the same values."""
    wrong = []
    for tested_case, answer in judged:
        expected = tested_case.good or tested_case.costly
        if answer.accepted != expected or _code_accepts(tested_case) != tested_case.good:
            wrong.append(f"{tested_case} -> {answer.status} {answer.message[:300]}")
    assert wrong == []


def test_refusals_name_the_field(judged: Judged) -> None:
    """Every refusal names the field that is at fault."""
    silent = []
    for tested_case, answer in judged:
        normalized = answer.message.replace("[", ".").replace("]", "")
        if not answer.accepted and f"spec.{tested_case.field}" not in normalized:
            silent.append(f"{tested_case} -> {answer.message[:300]}")
    assert silent == []


@pytest.mark.scenario("A9", "G2", "E5")
def test_refused_address_is_never_repeated(judged: Judged, kubectl: Any, dry: str) -> None:
    """An address with a token is refused without the token in any message."""
    leaks = [row for row in judged if CANARY in str(row[0].spec) and not row[0].good]
    assert len(leaks) > 40
    assert {tested_case.kind for tested_case, _ in leaks} == {
        "GitRepoConfig",
        "IgnitionSync",
        "Project",
    }
    for _, answer in leaks:
        assert answer.status == 422
        assert CANARY not in json.dumps(answer.body)
    manifest = {
        "apiVersion": "configbutler.ai/v1alpha1",
        "kind": "GitRepoConfig",
        "metadata": {"name": "leak", "namespace": dry},
        "spec": {"repoUrl": f"https://{CANARY}@host/x", "allowedBranches": ["main"]},
    }
    done = kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    assert done.returncode != 0
    assert CANARY not in done.stdout + done.stderr
    assert (
        "must not contain credentials; put them into the Secret named by spec.secretRef"
        in done.stderr
    )


@pytest.mark.scenario("A9")
def test_other_faults_do_not_reveal_the_address(server: Server, dry: str) -> None:
    """A fault elsewhere in the object does not make the server print the address."""
    address = f"https://{CANARY}@host/x"
    for extra in ({"allowedBranches": []}, {"allowedBranches": ["a", "a"]}, {"commit": 1}):
        spec = {"repoUrl": address, "allowedBranches": ["main"]} | extra
        answer = _create(server, dry, "GitRepoConfig", spec, query="?dryRun=All")
        assert answer.status == 422
        assert CANARY not in json.dumps(answer.body)


@pytest.mark.scenario("A14")
@pytest.mark.parametrize("folder", ["..", ".github", "/x", "a//b", ".git", "a/../b", "."])
def test_folders_that_leave_or_hide_are_refused(server: Server, dry: str, folder: str) -> None:
    """A folder outside the repository, at its root or beginning with a dot is refused."""
    answer = _try(server, dry, case("GitDestination", "baseFolder", folder, False))
    assert answer.status == 422
    assert "spec.baseFolder" in answer.message


@pytest.mark.scenario("A17")
def test_cluster_rule_needs_the_namespace_of_its_destination(server: Server, dry: str) -> None:
    """A ClusterWatchRule without the namespace of its destination is refused."""
    tested_case = case("ClusterWatchRule", "destinationRef.namespace", ABSENT, False)
    answer = _try(server, dry, tested_case)
    assert answer.status == 422
    assert "spec.destinationRef.namespace: Required value" in answer.message


def test_unknown_fields_are_refused_or_pruned(server: Server, dry: str) -> None:
    """A field that does not exist is refused by strict validation, else dropped."""
    spec = GOOD["GitDestination"] | {"suspend": True}
    strict = "?dryRun=All&fieldValidation=Strict"
    refused = _create(server, dry, "GitDestination", spec, query=strict)
    assert refused.status == 400
    assert 'unknown field "spec.suspend"' in refused.message
    pruned = _create(server, dry, "GitDestination", spec, query="?dryRun=All")
    assert pruned.accepted
    assert "suspend" not in pruned.body["spec"]


def test_subresources_are_refused_with_an_explanation(server: Server, dry: str) -> None:
    """The message names what to write instead."""
    tested_case = case("WatchRule", "rules.0.resources", ["deployments/status"], False)
    assert (
        "subresources such as deployments/status cannot be watched"
        in _try(server, dry, tested_case).message
    )


def test_samples_are_accepted(server: Server, dry: str) -> None:
    """The sample of every kind is accepted unchanged."""
    for kind in KINDS:
        document = crd.sample_manifest(kind)
        metadata = {"generateName": "sample-"}
        answer = server.post(
            _path(kind.name, dry) + "?dryRun=All&fieldValidation=Strict",
            document | {"metadata": metadata},
        )
        assert answer.accepted, answer.message


def test_defaults_appear_and_match_the_code(server: Server, dry: str) -> None:
    """The server fills in the defaults of decoding."""
    spec = GOOD["GitRepoConfig"] | {
        "knownHostsRef": {"name": "hosts"},
        "caRef": {"name": "ca"},
        "commit": {"committer": {}},
    }
    filled = _create(server, dry, "GitRepoConfig", spec, query="?dryRun=All").body["spec"]
    assert filled["hostKeyVerification"] == "Strict"
    assert filled["knownHostsRef"] == {"kind": "ConfigMap", "name": "hosts", "key": "known_hosts"}
    assert filled["caRef"] == {"kind": "ConfigMap", "name": "ca", "key": "ca.crt"}
    assert filled["commit"]["committer"] == {
        "name": "windlass",
        "email": "noreply@windlass.invalid",
    }
    decode = get_kind("GitRepoConfig").resource.decode
    assert decode(_raw(spec)) == decode(_raw(filled))
    destination = _create(
        server, dry, "GitDestination", GOOD["GitDestination"], query="?dryRun=All"
    )
    assert destination.body["spec"]["createBranch"] is False
    assert "commitWindow" not in destination.body["spec"]


def _raw(spec: Any) -> bytes:
    return json.dumps({"metadata": {"name": "x"}, "spec": spec}).encode()


def test_stored_object_decodes_with_its_metadata(server: Server, namespace: str) -> None:
    """An object of the server becomes a typed value."""
    created = _create(server, namespace, "WatchRule", GOOD["WatchRule"], query="")
    assert created.accepted, created.message
    rule = get_kind("WatchRule").resource.decode(json.dumps(created.body).encode())
    assert rule.metadata.uid == created.body["metadata"]["uid"]
    assert rule.metadata.generation == 1
    assert rule.metadata.resource_version == created.body["metadata"]["resourceVersion"]
    assert rule.metadata.creation_timestamp is not None
    assert rule.key.namespace == namespace


COLUMNS = {
    "GitRepoConfig": ["Name", "URL*", "Ready", "Status", "Age"],
    "GitDestination": [
        "Name",
        "Repo",
        "Branch",
        "BaseFolder",
        "Ready",
        "Objects",
        "Age",
        "Commit*",
        "Status*",
    ],
    "WatchRule": ["Name", "Destination", "Ready", "Objects", "Age"],
    "ClusterWatchRule": ["Name", "Destination", "Ready", "Objects", "Age"],
    "IgnitionSync": [
        "Name",
        "Ref",
        "Synced",
        "Gateways",
        "Ready",
        "Age",
        "Commit*",
        "Spec-Ref*",
        "Status*",
        "Last-Sync*",
    ],
    "Project": ["Name", "Ready", "Environments", "Running", "Status", "Age", "Repository*"],
    "Environment": [
        "Name",
        "Phase",
        "Ready",
        "Project",
        "Progress",
        "Age",
        "Type*",
        "Namespace*",
        "Branch*",
        "Commit*",
        "Message*",
    ],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns(server: Server, dry: str, kind: str) -> None:
    """`kubectl get` shows the columns of the specification; a star marks wide ones."""
    table = server.get(_path(kind, dry) + "?limit=1", accept=TABLE).body
    printed = [
        column["name"] + ("*" if column["priority"] else "")
        for column in table["columnDefinitions"]
    ]
    assert printed == COLUMNS[kind]


def test_status_is_a_subresource_that_accepts_our_reports(
    server: Server, kubectl: Any, namespace: str
) -> None:
    """A full status is written to the status subresource and printed in the columns."""
    created = _create(server, namespace, "GitDestination", GOOD["GitDestination"], query="")
    name = created.body["metadata"]["name"]
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "in step",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "observedGeneration": 1,
        "conditions": [condition],
        "objects": 3,
        "lastPush": {"commit": "a" * 40, "time": "2026-01-01T00:00:00Z", "files": 2},
        "streams": {"total": 1, "synced": 1, "forbidden": 0, "restarting": 0},
        "refused": [{"object": "v1/configmaps/a/b", "reason": "PathOccupied"}],
    }
    home = f"{_path('GitDestination', namespace)}/{name}"
    done = server.merge(f"{home}/status", {"status": status})
    assert done.accepted, done.message
    where = ("-n", namespace, "gdest", name)
    printed = kubectl("get", *where, "-o", "wide", "--no-headers").stdout.split()
    assert printed[1:6] == ["infra", "main", "clusters/x", "True", "3"]
    back = json.dumps(server.get(home).body)
    value = get_kind("GitDestination").resource.decode(back.encode())
    assert value.as_object()["status"]["refused"] == status["refused"]


def test_explain_prints_the_description_of_a_field(kubectl: Any) -> None:
    """`kubectl explain` has the text of the declaration, found by short name."""
    done = kubectl("explain", "grc.spec.repoUrl")
    assert done.returncode == 0, done.stderr
    assert "must not contain credentials" in " ".join(done.stdout.split())
    fields = kubectl("explain", "cwrule.spec.rules").stdout
    assert "scope" in fields
    assert "-required-" in fields


def test_categories(kubectl: Any, dry: str) -> None:
    """All namespaced kinds are found under their categories; an unknown one would be an error."""
    done = kubectl("get", "windlass,configbutler,catalyst", "-n", dry)
    assert done.returncode == 0, done.stderr
