"""Drift of the isolation: what counts as a difference, and which writer repeats it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.environments.isolation import drift_rules
from windlass.environments.isolation.drift_rules import CONTESTED_AFTER, QUIET_SECONDS, Contest

_US = "windlass-environments"


def _policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "default-policy"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], **spec},
    }


def _quota(**hard: str) -> dict[str, Any]:
    return {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


def _row(manager: str, time: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": fields, **more}


@pytest.mark.parametrize(
    "rules",
    [
        {"ingress": [{}]},
        {"egress": [{}]},
        {"podSelector": {"matchLabels": {"a": "b"}}},
        {"policyTypes": ["Ingress"]},
    ],
)
def test_any_difference_is_drift(rules: dict[str, Any]) -> None:
    """One field more, one less, or another value."""
    assert not drift_rules.has_exact_content(_policy(), _policy(**rules))
    assert not drift_rules.has_exact_content(_policy(**rules), _policy())


def test_an_empty_selector_is_a_difference() -> None:
    """Without terms it selects every namespace; without it, the own one."""
    ours = _policy(ingress=[{"from": [{"podSelector": {}}]}])
    theirs = _policy(ingress=[{"from": [{"podSelector": {}, "namespaceSelector": {}}]}])
    assert not drift_rules.has_exact_content(ours, theirs)


def test_fields_that_the_server_leaves_out_are_no_drift() -> None:
    """Nulls, empty lists, empty labels, metadata and status."""
    live = {**_policy(), "metadata": {"labels": {"a": "b"}}, "status": {"x": 1}}
    ours = _policy(ingress=[], egress=None, podSelector={"matchLabels": {}})
    assert drift_rules.has_exact_content(ours, live)


def test_amounts_are_compared_by_value_and_labels_by_text() -> None:
    """1 and 1000m are one amount, and two labels."""
    assert drift_rules.has_exact_content(_quota(cpu="1"), _quota(cpu="1000m"))
    assert not drift_rules.has_exact_content(_quota(cpu="1"), _quota(cpu="2"))
    assert not drift_rules.has_exact_content(_quota(cpu="1"), _quota(cpu="1", pods="1"))
    number, decimal = ({"matchLabels": {"v": text}} for text in ("1", "1.0"))
    assert not drift_rules.has_exact_content(
        _policy(podSelector=number), _policy(podSelector=decimal)
    )


def test_only_immutable_fields_need_replacement() -> None:
    """The role of a binding and the scopes of a quota."""
    binding = {"kind": "RoleBinding", "roleRef": {"name": "a"}}
    assert drift_rules.needs_replacement(binding, {"roleRef": {"name": "b"}})
    assert not drift_rules.needs_replacement(binding, {**binding, "subjects": [{}]})
    scoped = {"spec": {"hard": {}, "scopes": ["BestEffort"]}}
    assert drift_rules.needs_replacement(_quota(), scoped)
    assert not drift_rules.needs_replacement(_quota(cpu="1"), _quota(cpu="2"))
    assert not drift_rules.needs_replacement(_policy(), _policy(ingress=[{}]))


def test_other_writers_are_field_managers_of_content() -> None:
    """Not the operator, not managers of labels or status; the latest first."""
    spec = {"f:spec": {"f:ingress": {}}}
    rows = [
        _row("early", "2026-01-01T00:00:00Z", spec),
        _row(_US, "2026-01-03T00:00:00Z", spec),
        _row("late", "2026-01-02T00:00:00Z", {"f:metadata": {}, **spec}),
        _row("labels", "2026-01-04T00:00:00Z", {"f:metadata": {"f:labels": {}}}),
        _row("counts", "2026-01-05T00:00:00Z", {"f:status": {}}, subresource="status"),
    ]
    assert drift_rules.other_writers({"metadata": {"managedFields": rows}}, _US) == (
        "late",
        "early",
    )
    assert drift_rules.other_writers(None, _US) == ()


@pytest.mark.parametrize(
    ("rules", "is_open"),
    [({}, False), ({"ingress": []}, False), ({"ingress": [{}]}, True), ({"egress": [{}]}, True)],
)
def test_a_policy_without_rules_allows_nothing(rules: dict[str, Any], is_open: bool) -> None:
    """Only rules open something."""
    assert drift_rules.allows_traffic(_policy(**rules)) is is_open


def test_five_restorations_in_a_row_are_a_contest() -> None:
    """The first ones come at once; a minute of quiet ends it."""
    contest, now = Contest(), 1000.0
    for count in range(1, CONTESTED_AFTER + 1):
        assert contest.wait(now) == 0
        contest = contest.after_restoration(now, "kubectl-patch")
        assert contest.is_open(now) is (count >= CONTESTED_AFTER)
        now += 1.0
    assert not contest.is_open(now + QUIET_SECONDS)
    assert contest.after_restoration(now + QUIET_SECONDS, "x").count == 1


@given(st.lists(st.floats(0, 59), max_size=40))
def test_drift_lasts_no_longer_than_five_seconds(pauses: list[float]) -> None:
    """However often another client writes, the wait for the next correction is bounded."""
    contest, now = Contest(), 100.0
    for pause in pauses:
        contest = contest.after_restoration(now, "x")
        assert 0 <= contest.wait(now) <= drift_rules.SLOWEST_SECONDS
        now += pause


def test_a_contest_names_object_writer_and_remedy() -> None:
    """Readers of the condition know what to do."""
    text = drift_rules.contest_message("NetworkPolicy", "default-policy", Contest(6, 0.0, "argocd"))
    assert text == (
        "NetworkPolicy default-policy was restored 6 times in a row after changes by field manager "
        "argocd; stop that client, or set spec.network of the Project to allow traffic"
    )
    assert "deletion by another client" in drift_rules.contest_message(
        "RoleBinding", "x", Contest(5)
    )


def test_a_contest_about_a_removed_policy_says_that_it_was_removed() -> None:
    """Nothing was restored: it belongs to the client that creates it again and again."""
    contest = Contest()
    for now in range(5):
        contest = contest.after_restoration(100.0 + now, "kubectl-create", is_removed=True)
    assert drift_rules.contest_message("NetworkPolicy", "open", contest) == (
        "NetworkPolicy open was removed 5 times in a row (created by kubectl-create); "
        "stop that client"
    )


@pytest.mark.parametrize(
    ("kind", "name", "fields", "message"),
    [
        (
            "ResourceQuota",
            "default-quota",
            ("spec.hard[pods]",),
            "ResourceQuota default-quota: rejected by the API server: spec.hard[pods]; "
            "check spec.resources of the Project or spec.quota",
        ),
        (
            "RoleBinding",
            "windlass-applier",
            (),
            "RoleBinding windlass-applier: rejected by the API server: a field",
        ),
    ],
)
def test_a_rejected_object_is_named_with_its_fields_and_their_setting(
    kind: str, name: str, fields: tuple[str, ...], message: str
) -> None:
    """No user sets a RoleBinding, so there is nothing to check."""
    assert drift_rules.rejection_message(kind, name, fields) == message


def test_policies_of_others_are_named_with_their_writer() -> None:
    """One or several; none is nothing."""
    signed = {"name": "a", "managedFields": [_row("helm", "", {"f:spec": {}})]}
    policies: list[Any] = [{"metadata": signed}, {"metadata": {"name": "b"}}]
    assert drift_rules.unmanaged_policies_message([], _US) == ""
    assert drift_rules.unmanaged_policies_message(policies[:1], _US) == (
        "NetworkPolicy not managed by windlass: a (by helm)"
    )
    assert drift_rules.unmanaged_policies_message(policies, _US) == (
        "NetworkPolicies not managed by windlass: a (by helm), b"
    )
