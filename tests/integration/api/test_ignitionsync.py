"""IgnitionSync on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.api.server import Server
from tests.unit.api.spec_cases import ABSENT, CANARY, GOOD, case
from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.base.errors import Stalled

pytestmark = pytest.mark.cluster

API = "sync.ignition.io/v1alpha1"


def _document(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "IgnitionSync",
        "metadata": {"name": name},
        "spec": spec,
    }


def _path(namespace: str, rest: str = "") -> str:
    return f"/apis/{API}/namespaces/{namespace}/ignitionsyncs{rest}"


@pytest.mark.scenario("G1")
def test_without_git_it_is_refused_and_short_names_list_it(
    server: Server, kubectl: Any, namespace: str
) -> None:
    """An object without git is refused by name of the field; both short names list a good one."""
    bare = case("IgnitionSync", "git", ABSENT, False).spec
    refused = server.post(_path(namespace), _document("bare", bare))
    assert refused.status == 422
    assert "spec.git: Required value" in refused.message
    created = server.post(_path(namespace), _document("site", GOOD["IgnitionSync"]))
    assert created.accepted, created.message
    for short in ("isync", "igs"):
        assert "site" in kubectl("get", short, "-n", namespace).stdout


@pytest.mark.scenario("G2")
def test_two_credentials_bad_addresses_and_bad_refs_are_refused(server: Server, dry: str) -> None:
    """By the server without repeating a credential, and by the code again."""
    secret = {"secretRef": {"name": "x"}}
    cases = {
        "git.auth": ({"sshKey": secret, "token": secret}, "set sshKey or token, not both"),
        "git.repo": (
            f"file://user:{CANARY}@host/x",
            "must not contain credentials; put them into the Secret",
        ),
        "git.ref": ("--upload-pack=x", "must not begin with - or /"),
    }
    for field, (value, expected) in cases.items():
        spec = case("IgnitionSync", field, value, False).spec
        refused = server.post(_path(dry, "?dryRun=All"), _document("bad", spec))
        assert refused.status == 422
        assert f"spec.{field}" in refused.message
        assert expected in refused.message
        assert CANARY not in json.dumps(refused.body)
        with pytest.raises(Stalled) as caught:
            IgnitionSync.decode(json.dumps(_document("bad", spec)).encode())
        assert caught.value.reason == "InvalidSpec"
        assert CANARY not in str(caught.value)


def test_a_name_that_is_no_label_is_refused(server: Server, dry: str) -> None:
    """The name becomes a label value, so it has the same bound."""
    refused = server.post(_path(dry), _document("x" * 64, GOOD["IgnitionSync"]))
    assert refused.status == 422
    assert "at most 63 characters" in refused.message
    fine = server.post(_path(dry, "?dryRun=All"), _document("x" * 63, GOOD["IgnitionSync"]))
    assert fine.accepted


def test_defaults_show_in_the_stored_object(server: Server, dry: str) -> None:
    """The server fills in the defaults of decoding, so that users see them."""
    query = "?dryRun=All&fieldValidation=Strict"
    filled = server.post(_path(dry, query), _document("x", GOOD["IgnitionSync"])).body
    spec = filled["spec"]
    assert spec["polling"] == {"enabled": True, "interval": "60s"}
    assert spec["git"]["timeout"] == "2m"
    assert spec["gateway"]["port"] == 8043
    assert spec["ignition"]["scan"] == {
        "mode": "Required",
        "order": "projects-config",
        "requestTimeout": "10s",
        "completionTimeout": "60s",
    }
    assert spec["safety"]["maxFiles"] == 50_000
    assert spec["drift"] == {"mode": "Report", "interval": "10m", "fullHashInterval": "24h"}
    assert spec["agent"] == {"initialSyncPolicy": "Wait"}
    assert spec["normalize"] == {"systemName": False, "systemNameScope": "AnyDepth"}
    assert spec["excludePatterns"] == ["**/.git/", "**/.gitkeep", "**/.resources/**"]
    assert {"profiles", "podSelector", "auth"}.isdisjoint(spec)
    given = IgnitionSync.decode(json.dumps(_document("x", GOOD["IgnitionSync"])).encode())
    assert IgnitionSync.decode(json.dumps(filled).encode()).spec == given.spec


def test_the_largest_spec_is_accepted(server: Server, dry: str) -> None:
    """A spec at all bounds stays within the cost limit of rules."""
    path = "x" * 60
    patch = {"file": "*.json", "set": {".a": "b"}}
    mapping = {"source": path, "destination": path, "patches": [patch]}
    profile = {"mappings": [mapping] * 16, "vars": {f"V{n}": "x" for n in range(64)}}
    spec = GOOD["IgnitionSync"] | {
        "profiles": {f"p{n}": profile for n in range(64)},
        "additionalFiles": [{"source": path, "dest": path}] * 128,
        "excludePatterns": ["**/" + path] * 128,
    }
    answer = server.post(_path(dry, "?dryRun=All"), _document("big", spec))
    assert answer.accepted, answer.message[:500]


def test_a_complete_status_is_accepted(server: Server, kubectl: Any, namespace: str) -> None:
    """A reported status is stored by the status subresource and decoded again."""
    assert server.post(_path(namespace), _document("site", GOOD["IgnitionSync"])).accepted
    time = "2026-01-01T00:00:00Z"
    gateway = {
        "name": "gw",
        "namespace": namespace,
        "podName": "gw-0",
        "podUID": "u-1",
        "syncStatus": "Synced",
        "reason": "Synced",
        "syncedCommit": "a" * 40,
        "lastSyncTime": time,
        "filesChanged": 3,
        "projectsSynced": ["p"],
        "drift": {"modified": 1, "missing": 0, "extra": 0},
        "syncHistory": [{"timestamp": time, "commit": "a" * 40, "result": "Synced"}],
    }
    status = {
        "observedGeneration": 1,
        "lastSyncRef": "main",
        "lastSyncCommit": "a" * 40,
        "lastSyncCommitShort": "aaaaaaa",
        "lastSyncTime": time,
        "repoCloneStatus": "Cloned",
        "source": {"canonicalURL": "https://git.example.com/plant/app"},
        "gatewayCounts": {
            "total": 1,
            "synced": 1,
            "error": 0,
            "missingSidecar": 0,
            "degraded": 0,
            "dryRun": 0,
            "paused": 0,
        },
        "discoveredGateways": [gateway],
        "conditions": [
            {
                "type": "AllGatewaysSynced",
                "status": "True",
                "reason": "SyncSucceeded",
                "message": "1 of 1 gateways synced",
                "observedGeneration": 1,
                "lastTransitionTime": time,
            }
        ],
    }
    home = _path(namespace, "/site")
    done = server.merge(f"{home}/status", {"status": status})
    assert done.accepted, done.message
    back = server.get(home).body
    assert back["status"] == status
    value = IgnitionSync.decode(json.dumps(back).encode())
    (row,) = value.status.discovered_gateways
    assert (row.pod_uid, row.sync_status) == ("u-1", "Synced")
    printed = kubectl("get", "-n", namespace, "isync", "site", "--no-headers").stdout
    assert "1 of 1 gateways synced" in printed
