"""Status on a real operator: quiet when nothing changes, readable for people and programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.git.endless_listing import endless_listing
from tests.support.git.http_server import RunningGitServer, commit_files
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.mirrored_namespace import GROUP, MirroredNamespace
from tests.unit.runtime.kstatus import judge
from windlass_dev.git_server.fault_injection import GitFault

pytestmark = pytest.mark.cluster

_OURS = (("gitrepoconfig", "repo"), ("gitdestination", "destination"), ("watchrule", "rule"))
_RECONCILES = "windlass_reconciles_total"


def _settled(mirrored: MirroredNamespace) -> dict[str, dict[str, Any]]:
    """The three objects, once their status is complete."""

    def read_settled() -> dict[str, dict[str, Any]]:
        objects = {kind: mirrored.admin.get(kind, name) for kind, name in _OURS}
        repository, destination, rule = (objects[kind]["status"] for kind, _ in _OURS)
        pushed = destination.get("lastPush", {}).get("commit", "-")
        settled = (
            destination.get("objects") == rule.get("objects") == 1
            and destination.get("pending", 0) == 0
            and [row.get("sha") for row in repository.get("branches", ())] == [pushed]
        )
        return objects if settled else {}

    eventually(mirrored.files, "a file")
    # A busy destination reports every ten seconds; one that was changed reports now.
    touched = {"metadata": {"labels": {"touched": "now"}}}
    admin_user(mirrored).merge("gitdestination", "destination", touched)
    return eventually(read_settled, "a complete status")


def _status_write_times(obj: dict[str, Any]) -> list[str]:
    """When our status was last written, by managedFields."""
    rows = obj["metadata"]["managedFields"]
    return [row["time"] for row in rows if row["manager"] == "windlass-reverser-status"]


@pytest.mark.scenario("A109")
def test_reconciles_without_a_change_write_no_status(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """After many reconciles no resourceVersion and no condition time has changed."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    before = _settled(mirrored)
    reconciles = _reconcile_count(operator)
    for number in range(10):
        note = {"metadata": {"labels": {"touched": str(number)}}}
        for kind, name in _OURS:
            admin_user(mirrored).merge(kind, name, note)
        eventually(
            lambda least=reconciles + 3 * (number + 1): _reconcile_count(operator) >= least,
            "another reconcile",
        )
    after = {kind: mirrored.admin.get(kind, name) for kind, name in _OURS}
    for kind, _ in _OURS:
        assert after[kind]["status"] == before[kind]["status"], kind
        assert _status_write_times(after[kind]) == _status_write_times(before[kind]), kind
    versions = {kind: obj["metadata"]["resourceVersion"] for kind, obj in after.items()}
    reconciles = _reconcile_count(operator)
    eventually(lambda: _reconcile_count(operator) >= reconciles + 2, "periodic reconciles")
    again = {
        kind: mirrored.admin.get(kind, name)["metadata"]["resourceVersion"] for kind, name in _OURS
    }
    assert again == versions


def _reconcile_count(operator: Operator) -> float:
    return operator.metric(_RECONCILES)


def test_the_first_status_is_true(mirrored: MirroredNamespace) -> None:
    """2.2: once Synced is True and FirstSyncCompleted, Git has the files and all counts agree."""
    mirrored.admin.apply(*(mirrored.config_map(f"one-{number}", a="1") for number in range(3)))
    mirrored.configured({"resources": ["configmaps"]})
    row = eventually(lambda: _first_sync(mirrored), "the first sync")
    assert len(mirrored.files()) == 3
    assert "3 objects mirrored" in row["message"]
    destination = mirrored.admin.get("gitdestination", "destination")["status"]
    assert (destination["objects"], destination["pending"]) == (3, 0)
    assert destination["lastPush"]["files"] == 3
    synced = mirrored.condition("gitdestination", "destination", "Synced")
    assert synced["status"] == "True"
    ready = mirrored.condition("gitdestination", "destination")
    assert ready["message"] == "3 objects mirrored"

    def has_count() -> bool:
        rule = mirrored.admin.get("watchrule", "rule")["status"]
        return bool(rule.get("objects") == 3)

    eventually(has_count, "the rule counts alike")
    mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")


def _first_sync(mirrored: MirroredNamespace) -> dict[str, Any]:
    rows = admin_user(mirrored).list("events")
    return next((row for row in rows if row["reason"] == "FirstSyncCompleted"), {})


def test_pending_changes_are_reported(
    mirrored: MirroredNamespace, git_host: RunningGitServer
) -> None:
    """2.2: a remote that refuses leaves Synced False until it takes what waits."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    eventually(lambda: _first_sync(mirrored), "the first sync")
    git_host.server.faults.set(GitFault("error", service="receive-pack"))
    try:
        mirrored.admin.apply(mirrored.config_map("two", a="1"))
        row = mirrored.await_condition(
            "gitdestination", "destination", "CatchingUp", type_="Synced"
        )
        assert row["message"] == "1 change waiting to be pushed"
    finally:
        git_host.server.faults.clear()
    mirrored.await_condition("gitdestination", "destination", "Synced", type_="Synced")
    assert len(mirrored.files()) == 2


def test_the_first_sync_is_reported_by_events_once(mirrored: MirroredNamespace) -> None:
    """5.2: the branch, the claim and the first sync are events on the destination."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    wanted = {"BranchCreated", "DestinationClaimed", "FirstSyncCompleted", "SecretsRedacted"}
    eventually(lambda: wanted <= _events(mirrored).keys(), "the events")
    admin_user(mirrored).delete("watchrule", "rule")
    mirrored.admin.apply(mirrored.config_map("two", a="1"))
    mirrored.configured({"resources": ["configmaps", "secrets"]})
    eventually(lambda: len(mirrored.files()) == 3, "more files")
    found = _events(mirrored)
    assert {reason: found[reason] for reason in wanted} == dict.fromkeys(wanted, 1)


def test_failures_are_warnings_and_recoveries_are_not(mirrored: MirroredNamespace) -> None:
    """5.2: each failure is a Warning, on each of the three kinds."""
    away = mirrored.repo_config({"repoUrl": "https://127.0.0.1:9/nobody.git"})
    rule = mirrored.watch_rule({"resources": ["configmapz"]})
    mirrored.admin.apply(mirrored.secret(), away, mirrored.git_destination(), rule)
    failures = {
        ("Warning", "ConnectionFailed"),
        ("Warning", "GitRepoConfigNotReady"),
        ("Warning", "NoResourceResolved"),
    }
    eventually(lambda: failures <= _event_reasons(mirrored), "the warnings")
    mirrored.configured({"resources": ["configmaps"]})
    recoveries = {("Normal", "BranchFound"), ("Normal", "EmptyRepository"), ("Normal", "Ready")}
    eventually(lambda: len(recoveries & _event_reasons(mirrored)) > 1, "the recoveries")
    assert not {("Normal", reason) for _, reason in failures} & _event_reasons(mirrored)


def test_what_is_not_mirrored_is_a_warning_although_all_is_ready(
    mirrored: MirroredNamespace,
) -> None:
    """5.2: an object whose path is taken by a file of somebody else."""
    taken = f"{mirrored.folder}/v1/configmaps/{mirrored.namespace}/one.yaml"
    commit_files(mirrored.path, {taken: "of: somebody else\n"})
    mirrored.admin.apply(mirrored.config_map("one", a="1"), mirrored.config_map("two", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    eventually(lambda: ("Warning", "ObjectsRefused") in _event_reasons(mirrored), "the refusal")
    mirrored.admin.apply(mirrored.config_map("three", a="1"))
    eventually(lambda: len(mirrored.files()) == 3, "a later file")
    assert _events(mirrored)["ObjectsRefused"] == 1
    assert mirrored.condition("gitdestination", "destination")["status"] == "True"


def test_what_is_applied_together_has_a_moment_until_it_is_missing(
    mirrored: MirroredNamespace,
) -> None:
    """REF-7: in whatever order it comes; what stays away is a Warning two seconds later."""
    rule, lonely = mirrored.watch_rule({"resources": ["configmaps"]}), mirrored.watch_rule()
    lonely["metadata"]["name"] = "lonely"
    lonely["spec"]["destinationRef"]["name"] = "nowhere"
    # Neighbors in this order are one request apart, however busy the machine is otherwise.
    mirrored.admin.apply(
        mirrored.secret(), lonely, rule, mirrored.git_destination(), mirrored.repo_config()
    )
    mirrored.await_synced()
    missing = ("Warning", "GitDestinationNotFound")
    eventually(lambda: missing in _event_reasons(mirrored), "the warning of what is missing")
    rows = admin_user(mirrored).list("events")
    found = {row["involvedObject"]["name"] for row in rows if row["reason"].endswith("NotFound")}
    assert found == {"lonely"}


def test_a_rule_warns_of_a_destination_that_fails_later(mirrored: MirroredNamespace) -> None:
    """5.2: while the destination is checked its rule is Unknown, so the failure is a transition."""
    with endless_listing() as busy:
        # A destination that the operator sees before its repository fails, and stays settled.
        repository = {"repoUrl": busy}
        mirrored.admin.apply(mirrored.secret(), mirrored.repo_config(repository))
        mirrored.await_condition("gitrepoconfig", "repo", "Checking")
        mirrored.configured(
            {"resources": ["configmaps"]},
            destination={"branch": "other"},
            repository=repository,
            wait=False,
        )
        row = mirrored.await_condition("watchrule", "rule", "Validating")
        assert row["status"] == "Unknown"
        assert row["message"] == f"waiting for GitDestination {mirrored.namespace}/destination"
    # A changed address is asked at once; the old one would still be listed.
    mirrored.served.create(f"again-{mirrored.repository}")
    url = mirrored.served.server.url(f"again-{mirrored.repository}")
    mirrored.admin.apply(mirrored.repo_config({"repoUrl": url}))
    mirrored.await_condition("watchrule", "rule", "GitDestinationNotReady")
    expected = ("Warning", "GitDestinationNotReady")
    eventually(lambda: expected in _event_reasons(mirrored), "the warning")
    assert ("Normal", "GitDestinationNotReady") not in _event_reasons(mirrored)


def _event_reasons(mirrored: MirroredNamespace) -> set[tuple[str, str]]:
    """Type and reason of every event in the namespace."""
    return {(row["type"], row["reason"]) for row in admin_user(mirrored).list("events")}


def _events(mirrored: MirroredNamespace) -> Counter[str]:
    rows = admin_user(mirrored).list("events")
    ours = [row for row in rows if row["involvedObject"]["name"] == "destination"]
    return Counter(row["reason"] for row in ours)


@pytest.mark.scenario("A61")
def test_admission_calls_are_a_condition(mirrored: MirroredNamespace) -> None:
    """2.2: Attributed reports whether admission requests arrive."""
    mirrored.configured({"resources": ["configmaps"]})
    mirrored.user("alice").apply(mirrored.config_map("one", a="1"))
    row = mirrored.await_condition("gitdestination", "destination", "Receiving", type_="Attributed")
    assert row["status"] == "True"


@pytest.mark.scenario("A109")
@pytest.mark.parametrize(
    "annotation", ["windlass.dev/requestedAt", "reconcile.fluxcd.io/requestedAt"]
)
def test_a_request_is_acknowledged_once(mirrored: MirroredNamespace, annotation: str) -> None:
    """Each kind repeats the request in its status, in one write."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    before = _settled(mirrored)
    moment = "2026-01-01T10:00:00Z"
    note = {"metadata": {"annotations": {annotation: moment}}}
    for kind, name in _OURS:
        admin_user(mirrored).merge(kind, name, note)
    for kind, name in _OURS:
        eventually(
            lambda kind=kind, name=name: (
                mirrored.admin.get(kind, name)["status"].get("lastHandledReconcileAt") == moment
            ),
            f"{kind} acknowledges",
        )
    after = {kind: mirrored.admin.get(kind, name) for kind, name in _OURS}
    for kind, _ in _OURS:
        expected = {**before[kind]["status"], "lastHandledReconcileAt": moment}
        assert after[kind]["status"] == expected
        assert after[kind]["metadata"]["generation"] == 1


def _kstatus(mirrored: MirroredNamespace, kind: str, name: str) -> str:
    obj = mirrored.admin.get(kind, name)
    return judge(obj["metadata"]["generation"], obj.get("status", {}))


@pytest.mark.scenario("A108")
def test_programs_read_every_kind_as_meant(mirrored: MirroredNamespace) -> None:
    """Current, InProgress and Failed, also for a destination without rules."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    mirrored.admin.apply(mirrored.secret(), mirrored.repo_config(), mirrored.git_destination())
    # Its destination may be Ready first: it needs the listing, not the status.
    mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")
    mirrored.await_condition("gitdestination", "destination", "Ready")
    assert _kstatus(mirrored, "gitrepoconfig", "repo") == "Current"
    assert _kstatus(mirrored, "gitdestination", "destination") == "Current"
    mirrored.admin.apply(mirrored.watch_rule({"resources": ["notyetserved"]}))
    mirrored.await_condition("watchrule", "rule", "NoResourceResolved")
    assert _kstatus(mirrored, "watchrule", "rule") == "InProgress"
    mirrored.admin.apply(mirrored.watch_rule({"resources": ["configmaps"]}))
    mirrored.await_condition("watchrule", "rule", "Ready")
    assert _kstatus(mirrored, "watchrule", "rule") == "Current"
    mirrored.admin.apply(mirrored.git_destination({"branch": "not-allowed"}))
    mirrored.await_condition("gitdestination", "destination", "BranchNotAllowed")
    assert _kstatus(mirrored, "gitdestination", "destination") == "Failed"
    mirrored.await_condition("watchrule", "rule", "GitDestinationNotReady")
    assert _kstatus(mirrored, "watchrule", "rule") == "InProgress"
    mirrored.admin.apply(mirrored.secret(password="wrong"))
    mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed")
    assert _kstatus(mirrored, "gitrepoconfig", "repo") == "InProgress"


@pytest.mark.scenario("A108")
def test_a_cluster_rule_that_may_not_feed_its_destination_has_failed(
    mirrored: MirroredNamespace,
) -> None:
    """A destination outside the install namespace is refused by reason and by summary."""
    mirrored.admin.apply(
        {
            "apiVersion": GROUP,
            "kind": "ClusterWatchRule",
            "metadata": {"name": mirrored.namespace},
            "spec": {
                "destinationRef": {"name": "destination", "namespace": mirrored.namespace},
                "rules": [{"scope": "Namespaced", "resources": ["configmaps"]}],
            },
        }
    )
    try:
        mirrored.await_condition("clusterwatchrule", mirrored.namespace, "AccessDenied")
        assert _kstatus(mirrored, "clusterwatchrule", mirrored.namespace) == "Failed"
    finally:
        admin_user(mirrored).delete("clusterwatchrule", mirrored.namespace)


@pytest.mark.scenario("A108")
def test_kubectl_shows_what_matters_in_columns(mirrored: MirroredNamespace) -> None:
    """The columns of each kind, by its short name, with their values."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    found = _settled(mirrored)
    shown = mirrored.user("alice").kubectl("get", "grc,gdest,wrule", "-o", "wide")
    rows = [line.split() for line in shown.splitlines() if line]
    assert rows[0] == ["NAME", "URL", "READY", "STATUS", "AGE"]
    assert rows[1][1:3] == [mirrored.served.server.url(mirrored.repository), "True"]
    assert rows[1][3:6] == ["1", "branch", "validated:"]
    assert rows[2] == [
        "NAME",
        "REPO",
        "BRANCH",
        "BASEFOLDER",
        "READY",
        "OBJECTS",
        "AGE",
        "COMMIT",
        "STATUS",
    ]
    assert rows[3][1:6] == ["repo", "main", mirrored.folder, "True", "1"]
    assert rows[3][7] == found["gitdestination"]["status"]["lastPush"]["commit"]
    assert rows[4] == ["NAME", "DESTINATION", "READY", "OBJECTS", "AGE"]
    assert rows[5][1:3] == ["destination", "True"]
