"""What the controller publishes for agents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateways.samples import COMMIT, ignition_sync, live_pod
from windlass.gateways.wire import agent_objects, metadata, metadata_builder, routing
from windlass.gateways.wire.metadata import CommitSource, InvalidMetadata, StatusObject
from windlass.gateways.wire.metadata_builder import MetadataInputs

SOURCE = CommitSource(COMMIT, "main", "https://git.example.com/plant/app.git")


def _build(annotations: dict[str, str] | None = None, request: str = "", **spec: Any) -> Any:
    sync = ignition_sync(annotations, **spec)
    inputs = MetadataInputs(
        routing=metadata_builder.build_routing(sync.spec, "plant"),
        source=SOURCE,
        status_objects={"pod": StatusObject("name", "uid")},
        request=request,
        operator_version="1",
    )
    return metadata.encode(metadata_builder.build_metadata(sync, inputs))


def test_a_minimal_spec_publishes_the_defaults() -> None:
    """Every key of 2.8 that is in use, as text."""
    data = _build()
    assert data["schema"] == "1"
    assert (data["commit"], data["ref"], data["source"]) == (COMMIT, "main", "fetch")
    assert (data["authType"], data["paused"]) == ("none", "false")
    assert data["statusObjects"] == '{"pod":{"name":"name","uid":"uid"}}'
    assert "trigger" not in data
    assert "terminating" not in data
    decoded = metadata.decode(data)
    assert decoded.access.port == 8043
    assert decoded.policy == metadata.SyncPolicy()
    assert decoded.routing_hash == routing.hash_routing(decoded.routing)
    assert decoded.routing.cluster_name == "plant"


def test_durations_and_sizes_become_numbers() -> None:
    """Agents parse neither."""
    data = _build(
        git={"repo": "https://h/x", "ref": "main", "timeout": "1m30s"},
        ignition={"scan": {"mode": "BestEffort", "requestTimeout": "3s"}},
        safety={"maxFileSize": "1Ki", "maxTotalSize": "2Mi", "deletePolicy": "Never"},
        drift={"mode": "Off", "interval": "1h"},
        agent={"initialSyncPolicy": "StartAnyway"},
    )
    policy = metadata.decode(data).policy
    assert (policy.fetch_seconds, policy.scan_request_seconds) == (90.0, 3.0)
    assert (policy.max_file_bytes, policy.max_total_bytes) == (1024, 2 * 1024**2)
    assert (policy.scan_mode, policy.delete_policy) == ("BestEffort", "Never")
    assert (policy.drift_mode, policy.drift_seconds) == ("Off", 3600.0)
    assert policy.initial_sync == "StartAnyway"


def test_a_pause_and_a_deletion_are_published() -> None:
    """Only these let an agent start a gateway without data."""
    data = _build(paused=True)
    assert (data["paused"], bool(data["pauseReason"])) == ("true", True)
    assert metadata.decode(metadata_builder.terminating_data(data)).terminating


def test_a_sync_request_is_published_as_a_short_hash() -> None:
    """It changes with the request, and with nothing else."""
    first, second = _build(request="2026-01-01"), _build(request="x" * 100_000)
    assert len(first["trigger"]) == len(second["trigger"]) == 16
    assert first["trigger"] != second["trigger"]
    assert first == _build(request="2026-01-01")


@pytest.mark.parametrize(("text", "published"), [(COMMIT, COMMIT), ("main", ""), ("", "")])
def test_mass_deletes_are_allowed_for_one_commit(text: str, published: str) -> None:
    """Only a full commit id is accepted."""
    data = _build({"ignition-sync.io/allow-mass-delete": text})
    assert metadata.decode(data).overrides.mass_delete == published


def test_the_auth_type_follows_the_spec() -> None:
    """No name of a Secret is published."""
    secret = {"secretRef": {"name": "canary-secret"}}
    for auth, auth_type in (({"token": secret}, "token"), ({"sshKey": secret}, "ssh")):
        sync = ignition_sync(git={"repo": "ssh://git@h/x", "ref": "main", "auth": auth})
        assert metadata_builder.build_source(sync.spec, "u", "main", COMMIT).auth_type == auth_type


def test_only_existing_status_objects_are_published() -> None:
    """One that is not created yet is not in the map."""
    pods = [live_pod("a"), live_pod("b")]
    existing = {agent_objects.status_name("uid-a"): {"metadata": {"name": "n", "uid": "u"}}}
    assert metadata_builder.status_objects(pods, existing) == {"a": StatusObject("n", "u")}


@pytest.mark.parametrize(
    ("key", "text"), [("schema", "2"), ("routing", "{"), ("policy", "[]"), ("gateway", "")]
)
def test_an_invalid_key_is_refused(key: str, text: str) -> None:
    """The error names it."""
    with pytest.raises(InvalidMetadata, match=key):
        metadata.decode({**_build(), key: text})


def test_profiles_are_part_of_the_routing() -> None:
    """With all fields that affect the files of a gateway."""
    mapping = {
        "source": "a",
        "destination": "b",
        "type": "dir",
        "patches": [{"file": "x.json", "set": {".a": "1"}}],
    }
    spec = ignition_sync(
        profiles={"p": {"mappings": [mapping], "vars": {"x": "1"}, "dryRun": True}},
        additionalFiles=[{"source": "a", "dest": "b"}],
        normalize={"systemName": True, "fields": [{"jsonPath": ".a", "valueTemplate": "x"}]},
        siteNumber="7",
    ).spec
    built = metadata_builder.build_routing(spec, "")
    assert built.profiles is not None
    profile = built.profiles["p"]
    assert profile.dry_run
    assert profile.mappings[0].patches[0].set == {".a": "1"}
    assert built.normalize.fields[0].json_path == ".a"
    assert (built.site_number, built.additional_files[0].type) == ("7", "file")


@pytest.mark.parametrize(
    ("gateways", "milliseconds"),
    [(0, 0), (1, 50), (2, 100), (3, 200), (500, 25_600), (9999, 30_000)],
)
def test_the_jitter_grows_with_the_number_of_gateways(gateways: int, milliseconds: int) -> None:
    """In steps, so that one more pod rarely changes the metadata; at most 30 s."""
    assert metadata_builder.jitter_ms(gateways) == milliseconds
