"""Counting of gateways, the hash that agents echo, and reports of any length."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.gateways.samples import COMMIT, OWNER, discovered_gateway, synced_report
from tests.support.strategies.batched import rows
from windlass.gateways.status import gateway_status
from windlass.gateways.status.gateway_status import SyncTarget
from windlass.gateways.wire import agent_objects, agent_report, metadata, routing
from windlass.gateways.wire.agent_report import AgentReport, DriftCounts, SyncHistoryEntry
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource, StatusObject
from windlass.gateways.wire.routing import (
    ANNOTATION_PREFIX,
    Routing,
    RoutingMapping,
    RoutingProfile,
)

_MAPPINGS = (RoutingMapping("a", "projects"),)
_ROUTING = Routing(
    profiles={
        "real": RoutingProfile(_MAPPINGS),
        "dry": RoutingProfile(_MAPPINGS, dry_run=True),
        "held": RoutingProfile(_MAPPINGS, paused=True),
    }
)
_GOAL = SyncTarget(COMMIT, _ROUTING, routing.hash_routing(_ROUTING))

_GATEWAY = {
    "profile": ("real", "dry", "held", "nowhere"),
    "agent": ("missing", "waiting", "running", "stopped"),
    "status": ("Pending", "Syncing", "Synced", "Error", "DryRun", None),
    "commit": (COMMIT, "b" * 40),
    "hash": (False, True),
    "uid": (False, True),
}
_gateways = rows(*_GATEWAY.values(), max_size=12).map(
    lambda drawn: [dict(zip(_GATEWAY, said, strict=True)) for said in drawn]
)


@given(_gateways)
def test_counts_add_up(drawn: list[dict[str, Any]]) -> None:
    """N is what 2.5 says, never more than m, and no order changes either."""
    found, reports, expected = [], {}, 0
    for number, one in enumerate(drawn):
        each = discovered_gateway(f"g{number}", profile=one["profile"], agent=one["agent"])
        found.append(each)
        if one["status"] is not None:
            changes: dict[str, Any] = {
                "sync_status": one["status"],
                "synced_commit": one["commit"],
            }
            if not one["hash"]:
                changes["profile_hash"] = "0"
            if not one["uid"]:
                changes["pod_uid"] = "somebody-else"
            reports[each.observed_pod.uid] = synced_report(each, _GOAL, **changes)
        expected += (
            (one["profile"], one["agent"], one["status"], one["commit"])
            == ("real", "running", "Synced", COMMIT)
        ) and (one["hash"] and one["uid"])
    tally = gateway_status.fleet_status(found, reports, _GOAL)
    left_out = sum(one["profile"] in ("dry", "held") for one in drawn)
    assert tally.synced == expected
    assert tally.expected == len(drawn) - left_out
    assert tally.synced <= tally.expected
    assert tally.all_synced == (bool(drawn) and expected == len(drawn) - left_out)
    assert tally.message.startswith(f"{expected} of {len(drawn) - left_out} gateways synced")
    turned = gateway_status.fleet_status(list(reversed(found)), reports, _GOAL)
    assert turned.counts == tally.counts


_auth_types = st.sampled_from(["none", "ssh", "token"])
_words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)


@given(
    st.dictionaries(_words, st.text(max_size=20), max_size=4),
    st.dictionaries(_words, _words, max_size=4),
)
def test_agents_echo_the_hash(said: dict[str, str], labels: dict[str, str]) -> None:
    """Controller and agent hash alike: the agent has the routing hash from the metadata alone."""
    annotations = {ANNOTATION_PREFIX + name: text for name, text in said.items()}
    told = metadata.decode(metadata.encode(AgentMetadata(_ROUTING, _GOAL.routing_hash)))
    assert told.routing_hash == routing.hash_routing(told.routing)
    theirs = routing.hash_profile(told.routing_hash, annotations, labels)
    assert theirs == routing.hash_profile(_GOAL.routing_hash, annotations, labels)
    once_only = {**annotations, f"{ANNOTATION_PREFIX}allow-mass-delete": COMMIT}
    assert theirs == routing.hash_profile(told.routing_hash, once_only, labels)


@given(
    st.dictionaries(_words, st.builds(StatusObject, _words, _words), max_size=4),
    st.booleans(),
    st.booleans(),
    st.none()
    | st.builds(CommitSource, _words, _words, _words, st.sampled_from(["none", "ssh", "token"])),
)
def test_metadata_comes_back(
    objects: dict[str, StatusObject], paused: bool, terminating: bool, source: CommitSource | None
) -> None:
    """What is told is what is read."""
    told = AgentMetadata(
        routing=_ROUTING,
        routing_hash=_GOAL.routing_hash,
        source=source,
        status_objects=objects,
        paused=paused,
        terminating=terminating,
    )
    assert metadata.decode(metadata.encode(told)) == told


_names = st.text(st.characters(codec="ascii", min_codepoint=33), max_size=253)
_digests = st.text("0123456789abcdef", max_size=64)
_pasts = st.builds(
    SyncHistoryEntry, st.just(datetime(2026, 1, 1, tzinfo=UTC)), _digests, _words, _words
)
_reports = st.builds(
    AgentReport,
    gateway=st.text("ab-", max_size=253),
    pod_name=st.text("ab-", max_size=253),
    pod_uid=st.text("ab-", max_size=36),
    agent_version=_words,
    sync_status=st.sampled_from(["Pending", "Syncing", "Synced", "Error", "DryRun", "Paused"]),
    reason=_words,
    synced_commit=_digests,
    profile_hash=_digests,
    routing_hash=_digests,
    error_message=st.text(max_size=2000),
    synced_ref=st.text("ab/", max_size=255),
    applied_commit=_digests,
    plan_digest=_digests,
    tree_digest=_digests,
    last_scan_result=st.text(max_size=400),
    projects_synced=st.lists(st.text(max_size=253), max_size=30).map(tuple),
    system_name=st.text(max_size=253),
    history=st.lists(_pasts, max_size=6).map(tuple),
    drift=st.none() | st.builds(DriftCounts, st.integers(0, 2**53)),
)


@given(_reports)
def test_a_report_always_fits(said: AgentReport) -> None:
    """At most 2 KiB, readable, and what is counted by is never cut."""
    text = agent_report.encode(said)
    assert len(text.encode()) <= agent_report.MAX_REPORT_BYTES
    read = agent_report.decode(text)
    assert read is not None
    for name in (
        "gateway",
        "pod_name",
        "pod_uid",
        "agent_version",
        "sync_status",
        "reason",
        "synced_commit",
        "profile_hash",
        "routing_hash",
    ):
        assert getattr(read, name) == getattr(said, name)


@given(st.text(max_size=300))
def test_reading_a_report_never_fails(text: str) -> None:
    """Anything may stand in a ConfigMap."""
    agent_report.decode(text)


@given(st.lists(_names, max_size=5))
def test_no_right_is_without_names(names: list[str]) -> None:
    """A rule with an empty list of names would mean every ConfigMap."""
    assert all(rule["resourceNames"] for rule in agent_objects.agent_role(OWNER, names)["rules"])
