"""The exact join of a change with the admission records of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution import record_join
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation, judge_change
from windlass.reverser.attribution.records import AdmissionRecord, AdmissionRecords
from windlass.reverser.attribution.webhook_coverage import WebhookCoverage

DEPLOYMENTS = GVR("apps", "v1", "deployments")
OTHER_VERSION = GVR("apps", "v1beta1", "deployments")
COVERAGE = WebhookCoverage(frozenset({"kube-system"}))
NEW, OLD = b"n" * 16, b"o" * 16


def record(user: str = "alice", **given: Any) -> AdmissionRecord:
    """An update from version 7 to the new content."""
    settings: dict[str, Any] = {
        "time": 100.0,
        "operation": "UPDATE",
        "gvr": DEPLOYMENTS,
        "namespace": "ns",
        "name": "web",
        "uid": "u1",
        "old_resource_version": "7",
        "content": NEW,
    }
    return AdmissionRecord(user=user, **{**settings, **given})


def scale(user: str = "alice", replicas: int = 3, **given: Any) -> AdmissionRecord:
    """A request to the scale subresource."""
    return record(user, subresource="scale", content=None, replicas=replicas, **given)


def observed_change(**given: Any) -> Observation:
    """A change from version 7 to the new content."""
    settings: dict[str, Any] = {
        "uid": "u1",
        "operation": "UPDATE",
        "previous_resource_version": "7",
        "identity": Identity(DEPLOYMENTS, "ns", "web"),
        "content": NEW,
        "received": 100.1,
    }
    return Observation(**{**settings, **given})


def verdict(
    observation: Observation, *records: AdmissionRecord, lost: bool = False
) -> tuple[str, str]:
    """The tier and the user, or the tier and the reason where there is none."""
    result = judge_change(observation, records, lost=lost)
    assert (result.actor is None) == (result.tier == "unresolved") == bool(result.reason)
    return result.tier, result.actor.user if result.actor is not None else result.reason


def test_update_with_equal_content_is_exact() -> None:
    """ATT-4: uid, predecessor and content prove the author, with claims if there are any."""
    result = judge_change(
        observed_change(), [record(email="a@example.com", display_name="Alice")], lost=False
    )
    assert result.tier == "exact"
    assert result.actor is not None
    assert (result.actor.email, result.actor.display_name) == ("a@example.com", "Alice")


def test_attempt_with_other_content_is_not_credited() -> None:
    """ATT-4: a rejected attempt beside the real one is not credited."""
    attempt = record("mallory", content=OLD)
    assert verdict(observed_change(), attempt, record("bob")) == ("exact", "bob")
    assert verdict(observed_change(), attempt) == ("unresolved", "ContentMismatch")


@pytest.mark.scenario("A60")
def test_equal_content_by_two_users_is_ambiguous() -> None:
    """ATT-4: no author is guessed where two users tried the very same."""
    assert verdict(observed_change(), record("alice"), record("bob")) == ("unresolved", "Ambiguous")


def test_retries_of_one_user_are_one_user() -> None:
    """ATT-4: one request may call admission several times."""
    result = judge_change(
        observed_change(), [record(time=99.0), record(time=100.0, email="new@x.org")], lost=False
    )
    assert result.actor is not None
    assert result.actor.email == "new@x.org"


@pytest.mark.parametrize(
    "stray",
    [
        {"uid": "u2"},
        {"old_resource_version": "6"},
        {"operation": "DELETE"},
        {"operation": "CREATE"},
        {"namespace": "default"},
        {"name": "other"},
        {"gvr": GVR("apps", "v1", "statefulsets")},
        {"gvr": GVR("extensions", "v1", "deployments")},
    ],
)
def test_records_of_other_links_are_no_candidates(stray: dict[str, Any]) -> None:
    """ATT-4: another object, predecessor or operation proves nothing."""
    assert verdict(observed_change(), record(**stray)) == ("unresolved", "NoRecord")


def test_a_subresource_that_carries_the_object_is_compared_by_content() -> None:
    """Annotations may change through the status; the user who did that is the author."""
    through = record("admin", subresource="status")
    assert verdict(observed_change(), through) == ("exact", "admin")
    assert verdict(observed_change(), through, record("alice")) == ("unresolved", "Ambiguous")
    assert (
        verdict(observed_change(operation="CREATE"), replace(through, operation="CREATE"))[1]
        == "NoRecord"
    )


def test_a_kind_without_admission_requests_has_no_author() -> None:
    """A forged record fits in every part, and no true one could contradict it."""
    assert verdict(observed_change(bypasses_admission=True), record()) == (
        "unresolved",
        "SubresourceNotCovered",
    )
    hook = GVR("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
    namespaces = GVR("", "v1", "namespaces")
    for identity, reason in (
        (Identity(DEPLOYMENTS, "kube-system", "web"), "NamespaceNotCovered"),
        (Identity(namespaces, "", "kube-system"), "NamespaceNotCovered"),
        (Identity(hook, "", "any"), "KindNotCovered"),
        (Identity(GVR("coordination.k8s.io", "v1", "leases"), "ns", "any"), "KindNotCovered"),
    ):
        records = AdmissionRecords()
        where = {"namespace": identity.namespace, "name": identity.name}
        records.add(record(gvr=identity.gvr, **where), 100.0)
        result = record_join.attribute_change(
            observed_change(identity=identity), records, COVERAGE, now=100.2, recorded_until=100.3
        )
        assert result == AuthorVerdict("unresolved", None, reason)  # type: ignore[arg-type]
        elsewhere = record_join.attribute_change(
            observed_change(identity=identity),
            records,
            WebhookCoverage(),
            now=100.2,
            recorded_until=100.3,
        )
        assert elsewhere.tier == ("exact" if reason == "NamespaceNotCovered" else "unresolved")


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_unknown_predecessor_rules_the_join_out(operation: str) -> None:
    """ATT-5: after a relist this tier has nothing to say."""
    observation = observed_change(operation=operation, previous_resource_version=None)
    assert verdict(observation, record()) == ("unresolved", "VersionUnknown")


def test_record_gaps_rule_the_join_out() -> None:
    """ATT-3: the true record may be in the gap."""
    assert verdict(observed_change(), record(), lost=True) == ("unresolved", "RecordsLost")


def test_other_version_by_one_user_is_a_chain() -> None:
    """ATT-4: content that cannot be compared needs one user and a fresh record."""
    other = record(gvr=OTHER_VERSION, content=OLD)
    assert verdict(observed_change(), other) == ("chain", "alice")
    assert verdict(observed_change(received=110.1), other) == ("unresolved", "NoRecord")


def test_chain_needs_one_user_in_all_candidates() -> None:
    """ATT-4: any other attempt on the same predecessor breaks a chain."""
    other = record("alice", gvr=OTHER_VERSION)
    assert verdict(observed_change(), other, record("bob", content=OLD)) == (
        "unresolved",
        "Ambiguous",
    )
    assert verdict(observed_change(), other, record("bob", gvr=OTHER_VERSION)) == (
        "unresolved",
        "Ambiguous",
    )


def test_other_version_contradicts_equal_content_of_another_user() -> None:
    """P6: the record that cannot be compared may be the true one."""
    other = record("bob", gvr=OTHER_VERSION)
    assert verdict(observed_change(), record("alice"), other) == ("unresolved", "Ambiguous")
    assert verdict(observed_change(), record("bob"), other) == ("exact", "bob")


def test_record_without_content_proves_nothing_but_contradicts() -> None:
    """P6: an attempt without a digest may be the true one."""
    blank = record("bob", content=None)
    assert verdict(observed_change(), blank) == ("unresolved", "ContentMismatch")
    assert verdict(observed_change(), record("alice"), blank) == ("unresolved", "Ambiguous")


def test_observation_without_content_proves_nothing() -> None:
    """ING-11: an object that could not be hashed has no author by content."""
    assert verdict(observed_change(content=None), record()) == ("unresolved", "ContentMismatch")


def test_scale_with_equal_replicas_is_exact() -> None:
    """ATT-4: kubectl scale is credited by the count it asked for."""
    observation = observed_change(replicas=3, previous_replicas=1)
    assert verdict(observation, scale()) == ("exact", "alice")
    assert verdict(observation, scale(replicas=4)) == ("unresolved", "ContentMismatch")


def test_scale_explains_only_a_moved_count() -> None:
    """P6: a scale to the present count did not write the label that changed."""
    observation = observed_change(replicas=3, previous_replicas=3)
    assert verdict(observation, scale("mallory")) == ("unresolved", "ContentMismatch")
    assert verdict(observation, scale("mallory"), record("bob")) == ("exact", "bob")


def test_scale_without_known_count_contradicts_only() -> None:
    """P6: where the count before is unknown a scale record may be the true one or not."""
    observation = observed_change(replicas=3)
    assert verdict(observation, scale()) == ("unresolved", "ContentMismatch")
    assert verdict(observation, scale("bob"), record("alice")) == ("unresolved", "Ambiguous")


def test_scale_and_update_to_the_same_count_are_ambiguous() -> None:
    """ATT-4: two users asked for the same state."""
    observation = observed_change(replicas=3, previous_replicas=1)
    assert verdict(observation, scale("bob"), record("alice")) == ("unresolved", "Ambiguous")


def create(user: str = "alice", **given: Any) -> AdmissionRecord:
    """A request to create the object."""
    return record(user, operation="CREATE", old_resource_version="", **given)


def test_create_joins_by_uid() -> None:
    """ATT-4: the uid is given before admission; content still has to agree."""
    observation = observed_change(
        operation="CREATE", previous_resource_version=None, received=150.0
    )
    assert verdict(observation, create()) == ("exact", "alice")
    assert verdict(observation, create(content=OLD)) == ("unresolved", "ContentMismatch")
    assert verdict(observation, create(uid="u9")) == ("unresolved", "NoRecord")


def test_create_in_another_version_is_a_chain_at_any_age() -> None:
    """ATT-4: a uid has one creator, so age plays no part."""
    observation = observed_change(
        operation="CREATE", previous_resource_version=None, received=150.0
    )
    assert verdict(observation, create(gvr=OTHER_VERSION)) == ("chain", "alice")


def delete(user: str = "alice", **given: Any) -> AdmissionRecord:
    """A request to delete the object at version 7."""
    return record(user, operation="DELETE", content=None, **given)


def test_delete_joins_by_predecessor_without_content() -> None:
    """ATT-4: content plays no part in a delete, age does."""
    observation = observed_change(operation="DELETE", content=None)
    assert verdict(observation, delete(gvr=OTHER_VERSION)) == ("exact", "alice")
    assert verdict(observation, delete(time=90.0)) == ("unresolved", "NoRecord")
    assert verdict(observation, delete("mallory", time=89.0), delete("bob")) == ("exact", "bob")


def test_delete_by_two_users_is_ambiguous() -> None:
    """ATT-4: two fresh attempts to delete cannot be distinguished."""
    observation = observed_change(operation="DELETE", content=None)
    assert verdict(observation, delete("a"), delete("b")) == ("unresolved", "Ambiguous")


def test_simultaneous_deletes_are_judged_together() -> None:
    """P6: the age limit must not cut the true one of two deletes off when the change is late."""
    observation = observed_change(operation="DELETE", content=None, received=110.0)
    both = delete("alice", time=99.99), delete("bob", time=100.01)
    assert verdict(observation, *both) == ("unresolved", "Ambiguous")


def test_an_attempt_after_the_change_does_not_hide_earlier_ones() -> None:
    """P6: a delete tried long after the change is not the only one that fits."""
    observation = observed_change(operation="DELETE", content=None)
    both = delete("alice", time=100.0), delete("bob", time=110.1)
    assert verdict(observation, *both) == ("unresolved", "Ambiguous")


def test_delete_is_credited_at_intent() -> None:
    """ATT-8: a second delete while the object terminates has another predecessor."""
    observation = observed_change(operation="DELETE", content=None)
    later = delete("bob", old_resource_version="8")
    assert verdict(observation, delete("alice"), later) == ("exact", "alice")


def test_age_is_measured_to_the_change() -> None:
    """ATT-7: judging again when the window closes gives the same verdict."""
    records = AdmissionRecords()
    records.add(delete(), 100.0)
    observation = observed_change(operation="DELETE", content=None)
    early = record_join.attribute_change(
        observation, records, COVERAGE, now=100.1, recorded_until=100.3
    )
    assert early.tier == "exact"
    assert (
        record_join.attribute_change(
            observation, records, COVERAGE, now=125.0, recorded_until=125.0
        )
        == early
    )


def test_gap_of_the_same_link_rules_the_join_out() -> None:
    """ATT-3: a link with a gap names no author; other links do."""
    records = AdmissionRecords(depth=1)
    records.add(record("bob", content=OLD), 100.0)
    records.add(record("alice"), 100.0)
    records.add(record("alice", uid="u2"), 100.0)
    assert record_join.attribute_change(
        observed_change(), records, COVERAGE, now=100.2, recorded_until=100.3
    ) == AuthorVerdict("unresolved", None, "RecordsLost")
    assert (
        record_join.attribute_change(
            observed_change(uid="u2"), records, COVERAGE, now=100.2, recorded_until=100.3
        ).tier
        == "exact"
    )


@pytest.mark.parametrize(("before", "tier"), [(1.0, "exact"), (-1.0, "unresolved")])
def test_gap_counts_within_the_reach_of_a_change(before: float, tier: str) -> None:
    """ATT-3: a gap long before a change cannot have held its record."""
    records = AdmissionRecords()
    records.add_gap(0.0, 100.0 - record_join.REACH_SECONDS - before)
    records.add(record(), 100.0)
    assert (
        record_join.attribute_change(
            observed_change(), records, COVERAGE, now=100.2, recorded_until=100.3
        ).tier
        == tier
    )


@pytest.mark.parametrize("lag", [0.1, 6.0, 25.0])
def test_gap_counts_however_late_the_change_arrives(lag: float) -> None:
    """P6: a refused attempt is not credited because the stream lags behind the lost record."""
    records = AdmissionRecords()
    records.add(record("mallory", time=99.0), 99.0)
    records.add_gap(100.0, 100.0)
    result = record_join.attribute_change(
        observed_change(received=100.0 + lag),
        records,
        COVERAGE,
        now=100.0 + lag,
        recorded_until=100.1 + lag,
    )
    assert result == AuthorVerdict("unresolved", None, "RecordsLost")
