"""Counts of gateways, the hash that agents report back, and reports of any length."""

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
_TARGET = SyncTarget(COMMIT, _ROUTING, routing.hash_routing(_ROUTING))

_GATEWAY = {
    "profile": ("real", "dry", "held", "nowhere"),
    "agent": ("missing", "waiting", "running", "stopped"),
    "status": ("Pending", "Syncing", "Synced", "Error", "DryRun", None),
    "commit": (COMMIT, "b" * 40),
    "hash": (False, True),
    "uid": (False, True),
}
_gateways = rows(*_GATEWAY.values(), max_size=12).map(
    lambda drawn: [dict(zip(_GATEWAY, row, strict=True)) for row in drawn]
)


@given(_gateways)
def test_the_counts_of_gateways_are_consistent(drawn: list[dict[str, Any]]) -> None:
    """Synced follows 2.5 and never exceeds expected; the order of gateways does not matter."""
    gateways, reports, expected = [], {}, 0
    for number, row in enumerate(drawn):
        gateway = discovered_gateway(f"g{number}", profile=row["profile"], agent=row["agent"])
        gateways.append(gateway)
        if row["status"] is not None:
            changes: dict[str, Any] = {
                "sync_status": row["status"],
                "synced_commit": row["commit"],
            }
            if not row["hash"]:
                changes["profile_hash"] = "0"
            if not row["uid"]:
                changes["pod_uid"] = "somebody-else"
            reports[gateway.observed_pod.uid] = synced_report(gateway, _TARGET, **changes)
        expected += (
            (row["profile"], row["agent"], row["status"], row["commit"])
            == ("real", "running", "Synced", COMMIT)
        ) and (row["hash"] and row["uid"])
    fleet = gateway_status.fleet_status(gateways, reports, _TARGET)
    left_out = sum(row["profile"] in ("dry", "held") for row in drawn)
    assert fleet.synced == expected
    assert fleet.expected == len(drawn) - left_out
    assert fleet.synced <= fleet.expected
    assert fleet.all_synced == (bool(drawn) and expected == len(drawn) - left_out)
    assert fleet.message.startswith(f"{expected} of {len(drawn) - left_out} gateways synced")
    reversed_fleet = gateway_status.fleet_status(list(reversed(gateways)), reports, _TARGET)
    assert reversed_fleet.counts == fleet.counts


_auth_types = st.sampled_from(["none", "ssh", "token"])
_words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)


@given(
    st.dictionaries(_words, st.text(max_size=20), max_size=4),
    st.dictionaries(_words, _words, max_size=4),
)
def test_agent_and_controller_compute_the_same_hash(
    values: dict[str, str], labels: dict[str, str]
) -> None:
    """The agent has the routing hash from the metadata alone."""
    annotations = {ANNOTATION_PREFIX + name: text for name, text in values.items()}
    published = metadata.decode(metadata.encode(AgentMetadata(_ROUTING, _TARGET.routing_hash)))
    assert published.routing_hash == routing.hash_routing(published.routing)
    profile_hash = routing.hash_profile(published.routing_hash, annotations, labels)
    assert profile_hash == routing.hash_profile(_TARGET.routing_hash, annotations, labels)
    with_allowance = {**annotations, f"{ANNOTATION_PREFIX}allow-mass-delete": COMMIT}
    assert profile_hash == routing.hash_profile(published.routing_hash, with_allowance, labels)


@given(
    st.dictionaries(_words, st.builds(StatusObject, _words, _words), max_size=4),
    st.booleans(),
    st.booleans(),
    st.none()
    | st.builds(CommitSource, _words, _words, _words, st.sampled_from(["none", "ssh", "token"])),
)
def test_metadata_survives_encoding(
    objects: dict[str, StatusObject], paused: bool, terminating: bool, source: CommitSource | None
) -> None:
    """The agent reads what the controller published."""
    published = AgentMetadata(
        routing=_ROUTING,
        routing_hash=_TARGET.routing_hash,
        source=source,
        status_objects=objects,
        paused=paused,
        terminating=terminating,
    )
    assert metadata.decode(metadata.encode(published)) == published


_names = st.text(st.characters(codec="ascii", min_codepoint=33), max_size=253)
_digests = st.text("0123456789abcdef", max_size=64)
_history_entries = st.builds(
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
    history=st.lists(_history_entries, max_size=6).map(tuple),
    drift=st.none() | st.builds(DriftCounts, st.integers(0, 2**53)),
)


@given(_reports)
def test_a_report_always_fits(report: AgentReport) -> None:
    """At most 2 KiB, readable, and the fields that counts depend on are never truncated."""
    text = agent_report.encode(report)
    assert len(text.encode()) <= agent_report.MAX_REPORT_BYTES
    decoded = agent_report.decode(text)
    assert decoded is not None
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
        assert getattr(decoded, name) == getattr(report, name)


@given(st.text(max_size=300))
def test_decoding_a_report_never_fails(text: str) -> None:
    """A ConfigMap may contain any text."""
    agent_report.decode(text)


@given(st.lists(_names, max_size=5))
def test_every_rule_names_its_objects(names: list[str]) -> None:
    """A rule with an empty list of names would allow every ConfigMap."""
    assert all(rule["resourceNames"] for rule in agent_objects.agent_role(OWNER, names)["rules"])
