"""What agents are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateways.samples import COMMIT, ignition_sync, live_pod
from windlass.gateways.wire import agent_objects, metadata, metadata_builder, routing
from windlass.gateways.wire.metadata import CommitSource, InvalidMetadata, StatusObject
from windlass.gateways.wire.metadata_builder import MetadataInputs

SOURCE = CommitSource(COMMIT, "main", "https://git.example.com/plant/app.git")


def _built(annotations: dict[str, str] | None = None, request: str = "", **spec: Any) -> Any:
    one = ignition_sync(annotations, **spec)
    wish = MetadataInputs(
        routing=metadata_builder.build_routing(one.spec, "plant"),
        source=SOURCE,
        status_objects={"pod": StatusObject("name", "uid")},
        request=request,
        operator_version="1",
    )
    return metadata.encode(metadata_builder.build_metadata(one, wish))


def test_the_least_spec_tells_the_defaults() -> None:
    """Every key of 2.8 that has a meaning now, as text."""
    data = _built()
    assert data["schema"] == "1"
    assert (data["commit"], data["ref"], data["source"]) == (COMMIT, "main", "fetch")
    assert (data["authType"], data["paused"]) == ("none", "false")
    assert data["statusObjects"] == '{"pod":{"name":"name","uid":"uid"}}'
    assert "trigger" not in data
    assert "terminating" not in data
    read = metadata.decode(data)
    assert read.access.port == 8043
    assert read.policy == metadata.SyncPolicy()
    assert read.routing_hash == routing.hash_routing(read.routing)
    assert read.routing.cluster_name == "plant"


def test_texts_become_numbers() -> None:
    """Agents parse neither durations nor sizes."""
    data = _built(
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


def test_a_pause_and_an_end_are_said_outright() -> None:
    """An agent lets a gateway start without data only for these words."""
    data = _built(paused=True)
    assert (data["paused"], bool(data["pauseReason"])) == ("true", True)
    assert metadata.decode(metadata_builder.terminating_data(data)).terminating


def test_a_request_is_a_short_opaque_word() -> None:
    """It changes with the request, and with nothing else."""
    one, two = _built(request="2026-01-01"), _built(request="x" * 100_000)
    assert len(one["trigger"]) == len(two["trigger"]) == 16
    assert one["trigger"] != two["trigger"]
    assert one == _built(request="2026-01-01")


@pytest.mark.parametrize(("text", "told"), [(COMMIT, COMMIT), ("main", ""), ("", "")])
def test_mass_deletes_are_allowed_for_one_commit(text: str, told: str) -> None:
    """Only a full id allows anything."""
    data = _built({"ignition-sync.io/allow-mass-delete": text})
    assert metadata.decode(data).overrides.mass_delete == told


def test_the_auth_type_follows_the_spec() -> None:
    """And no name of a Secret is told."""
    secret = {"secretRef": {"name": "canary-secret"}}
    for auth, word in (({"token": secret}, "token"), ({"sshKey": secret}, "ssh")):
        one = ignition_sync(git={"repo": "ssh://git@h/x", "ref": "main", "auth": auth})
        assert metadata_builder.build_source(one.spec, "u", "main", COMMIT).auth_type == word


def test_a_pod_is_told_only_objects_that_exist() -> None:
    """One that is not made yet is not in the map."""
    pods = [live_pod("a"), live_pod("b")]
    made = {agent_objects.status_name("uid-a"): {"metadata": {"name": "n", "uid": "u"}}}
    assert metadata_builder.status_objects(pods, made) == {"a": StatusObject("n", "u")}


@pytest.mark.parametrize(
    ("key", "text"), [("schema", "2"), ("routing", "{"), ("policy", "[]"), ("gateway", "")]
)
def test_what_cannot_be_read_is_refused(key: str, text: str) -> None:
    """The error names the key."""
    with pytest.raises(InvalidMetadata, match=key):
        metadata.decode({**_built(), key: text})


def test_profiles_reach_the_routing() -> None:
    """All that shapes a tree is in it."""
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
    found = metadata_builder.build_routing(spec, "")
    assert found.profiles is not None
    profile = found.profiles["p"]
    assert profile.dry_run
    assert profile.mappings[0].patches[0].set == {".a": "1"}
    assert found.normalize.fields[0].json_path == ".a"
    assert (found.site_number, found.additional_files[0].type) == ("7", "file")


@pytest.mark.parametrize(
    ("gateways", "milliseconds"),
    [(0, 0), (1, 50), (2, 100), (3, 200), (500, 25_600), (9999, 30_000)],
)
def test_a_crowd_spreads_its_fetches(gateways: int, milliseconds: int) -> None:
    """In steps, so that one more pod is no news to everybody; never longer than 30 s."""
    assert metadata_builder.jitter_ms(gateways) == milliseconds
