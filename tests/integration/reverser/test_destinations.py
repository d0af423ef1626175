"""GitDestinations on a real operator: who may write where, and who holds a folder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.cluster import control_plane as clusters
from tests.support.git.http_server import branch_tips, commit_files
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.api_users import ApiUser, admin_user, api_user
from tests.support.reverser.mirrored_namespace import GROUP, MirroredNamespace

pytestmark = pytest.mark.cluster

MOVED = "DestinationMoved"


@pytest.fixture
def team(mirrored: MirroredNamespace) -> Iterator[ApiUser]:
    """An administrator in a second namespace."""
    with clusters.fresh_namespace(mirrored.cluster) as namespace:
        yield api_user(mirrored, "admin", namespace)


def _move_to_namespace(namespace: str, document: dict[str, Any], name: str = "") -> dict[str, Any]:
    metadata = {**document["metadata"], "namespace": namespace}
    return {**document, "metadata": {**metadata, "name": name or metadata["name"]}}


def _ready(person: ApiUser, kind: str, name: str) -> dict[str, Any]:
    rows = person.get(kind, name).get("status", {}).get("conditions", [])
    return next((row for row in rows if row["type"] == "Ready"), {})


def _await(
    person: ApiUser, kind: str, name: str, reason: str, seconds: float = 20.0
) -> dict[str, Any]:
    return eventually(
        lambda: row if (row := _ready(person, kind, name)).get("reason") == reason else {},
        f"{kind} {name} is {reason} (is {_ready(person, kind, name)})",
        seconds=seconds,
    )


def _tree(mirrored: MirroredNamespace, folder: str) -> str:
    return mirrored.git("rev-parse", f"main:{folder}").strip()


@pytest.mark.scenario("A10")
def test_a_branch_that_is_not_allowed_is_not_written(mirrored: MirroredNamespace) -> None:
    """The destination says why, its rule waits, the remote stays empty."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]}, destination={"branch": "other"}, wait=False)
    condition = mirrored.await_condition("gitdestination", "destination", "BranchNotAllowed")
    assert "other" in condition["message"]
    mirrored.await_condition("watchrule", "rule", "GitDestinationNotReady")
    assert branch_tips(mirrored.path) == {}


def test_a_destination_that_becomes_invalid_is_not_synced(mirrored: MirroredNamespace) -> None:
    """2.2: Synced turns False with the reason of Ready, and True when the spec is repaired."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    mirrored.admin.apply(mirrored.git_destination({"branch": "other"}))
    mirrored.await_condition("gitdestination", "destination", "BranchNotAllowed")
    synced = mirrored.condition("gitdestination", "destination", "Synced")
    assert (synced["status"], synced["reason"]) == ("False", "BranchNotAllowed")
    mirrored.admin.apply(mirrored.git_destination())
    mirrored.await_condition("gitdestination", "destination", "Synced", type_="Synced")


@pytest.mark.scenario("A12")
def test_a_grant_opens_and_closes_a_repository(mirrored: MirroredNamespace, team: ApiUser) -> None:
    """Ungranted and missing look the same; a grant works in seconds, so does its end."""
    home = mirrored.namespace
    commit_files(mirrored.path, {"README.md": "hello\n"})
    mirrored.configured({"resources": ["configmaps"]}, destination={"baseFolder": "own"})
    there = _move_to_namespace(team.namespace, mirrored.git_destination(), "guest")
    there["spec"]["repoRef"]["namespace"] = home
    ghost = _move_to_namespace(
        team.namespace, mirrored.git_destination({"baseFolder": "ghost"}), "ghost"
    )
    ghost["spec"]["repoRef"] = {"name": "ghost", "namespace": home}
    rule = _move_to_namespace(team.namespace, mirrored.watch_rule({"resources": ["configmaps"]}))
    rule["spec"]["destinationRef"] = {"name": "guest"}
    team.apply(
        there, ghost, rule, _move_to_namespace(team.namespace, mirrored.config_map("one", a="1"))
    )
    denied = _await(team, "gitdestination", "guest", "AccessDenied")["message"]
    missing = _await(team, "gitdestination", "ghost", "AccessDenied")["message"]
    assert missing == denied.replace(f"{home}/repo", f"{home}/ghost")
    assert mirrored.files() == {}

    mirrored.admin.apply(mirrored.repo_config({"allowedNamespaces": [team.namespace]}))
    _await(team, "gitdestination", "guest", "Ready")
    eventually(mirrored.files, "the guest's file")

    mirrored.admin.apply(mirrored.repo_config())
    _await(team, "gitdestination", "guest", "AccessDenied")
    before = mirrored.files()
    team.apply(_move_to_namespace(team.namespace, mirrored.config_map("late", a="1")))
    mirrored.admin.apply(mirrored.config_map("marker", a="1"))
    eventually(
        lambda: "marker" in mirrored.git("ls-tree", "-r", "--name-only", "main", "own/"),
        "a later change of the owner",
    )
    assert mirrored.files() == before


@pytest.mark.scenario("A13")
def test_a_granted_rule_brings_its_own_namespace_only(
    mirrored: MirroredNamespace, team: ApiUser
) -> None:
    """Objects of the destination's namespace do not slip in."""
    mirrored.admin.apply(
        mirrored.secret(),
        mirrored.repo_config(),
        mirrored.git_destination({"allowedNamespaces": [team.namespace]}),
        mirrored.config_map("home", a="1"),
    )
    rule = _move_to_namespace(team.namespace, mirrored.watch_rule({"resources": ["configmaps"]}))
    rule["spec"]["destinationRef"]["namespace"] = mirrored.namespace
    team.apply(_move_to_namespace(team.namespace, mirrored.config_map("guest", a="1")), rule)
    _await(team, "watchrule", "rule", "Ready")
    eventually(mirrored.files, "a file")
    mirrored.admin.apply(mirrored.config_map("home-too", a="1"))
    team.apply(_move_to_namespace(team.namespace, mirrored.config_map("marker", a="1")))
    wanted = {f"v1/configmaps/{team.namespace}/{name}.yaml" for name in ("guest", "marker")}
    eventually(lambda: wanted <= mirrored.files().keys(), "the later file")
    assert set(mirrored.files()) == wanted


@pytest.mark.scenario("A14")
@pytest.mark.parametrize("folder", ["..", ".github", "/x", "a//b", "a/../b", ".git/hooks", "a/."])
def test_dangerous_folders_are_refused(mirrored: MirroredNamespace, folder: str) -> None:
    """The API server turns them away; nothing of ours ever sees them."""
    document = mirrored.git_destination({"baseFolder": folder})
    assert admin_user(mirrored).send(document, dryRun="All").status == 422


@pytest.mark.scenario("A15")
def test_a_folder_of_another_cluster_is_not_written_until_taken_over(
    mirrored: MirroredNamespace,
) -> None:
    """FolderClaimed and zero writes; the annotation that names the holder starts syncing."""
    claim = (
        "claim: v1\ncluster: 11111111-2222-3333-4444-555555555555\n"
        "destination: far/away\nemitter: e1\nlayout: seed\n"
    )
    tip = commit_files(mirrored.path, {f"{mirrored.folder}/.windlass-claim": claim})
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]}, wait=False)
    condition = mirrored.await_condition("gitdestination", "destination", "FolderClaimed")
    holder = "far/away@11111111-2222-3333-4444-555555555555"
    assert holder in condition["message"]
    mirrored.await_condition("watchrule", "rule", "GitDestinationNotReady")
    assert branch_tips(mirrored.path) == {"main": tip}
    note = {"metadata": {"annotations": {"windlass.dev/takeover": holder}}}
    admin_user(mirrored).merge("gitdestination", "destination", note)
    mirrored.await_synced()
    eventually(mirrored.files, "the first file")
    ours = mirrored.git("show", f"main:{mirrored.folder}/.windlass-claim")
    assert f"destination: {mirrored.namespace}/destination" in ours


@pytest.mark.scenario("A15")
def test_no_annotation_takes_the_folder_of_another_namespace(
    mirrored: MirroredNamespace, team: ApiUser
) -> None:
    """A guest of the repository who names the live holder is refused, and the holder writes on."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured(
        {"resources": ["configmaps"]}, repository={"allowedNamespaces": [team.namespace]}
    )
    eventually(mirrored.files, "the file of the holder")
    claim = f"main:{mirrored.folder}/.windlass-claim"
    before = mirrored.git("show", claim)
    [cluster] = [row.split()[1] for row in before.splitlines() if row.startswith("cluster:")]
    guest = _move_to_namespace(team.namespace, mirrored.git_destination(), "guest")
    guest["spec"]["repoRef"]["namespace"] = mirrored.namespace
    holder = f"{mirrored.namespace}/destination@{cluster}"
    guest["metadata"]["annotations"] = {"windlass.dev/takeover": holder}
    team.apply(guest)
    _await(team, "gitdestination", "guest", "OverlappingBaseFolder")
    mirrored.admin.apply(mirrored.config_map("later", a="1"))
    eventually(lambda: len(mirrored.files()) == 2, "a later change of the holder")
    assert mirrored.git("show", claim) == before


@pytest.mark.scenario("A16")
def test_a_moved_destination_leaves_its_old_folder(mirrored: MirroredNamespace) -> None:
    """The new folder is complete, the old one is byte for byte what it was."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"), mirrored.config_map("two", b="2"))
    mirrored.configured({"resources": ["configmaps"]})
    eventually(lambda: len(mirrored.files()) == 2, "both files")
    complete, old, before = mirrored.files(), mirrored.folder, _tree(mirrored, mirrored.folder)
    mirrored.folder = "elsewhere"
    mirrored.admin.apply(mirrored.git_destination())
    eventually(lambda: mirrored.files() == complete, "the same files in the new folder")
    mirrored.admin.apply(mirrored.config_map("three", c="3"))
    eventually(lambda: len(mirrored.files()) == 3, "a new file in the new folder")
    assert _tree(mirrored, old) == before

    def moves() -> list[Any]:
        return [row for row in admin_user(mirrored).list("events") if row["reason"] == MOVED]

    [moved] = eventually(moves, "the Event")
    assert f"folder {old} on branch main" in moved["message"]


@pytest.mark.scenario("A17")
def test_a_cluster_rule_must_name_the_namespace_of_its_destination(
    mirrored: MirroredNamespace,
) -> None:
    """The API server refuses a ClusterWatchRule without it."""
    document = {
        "apiVersion": GROUP,
        "kind": "ClusterWatchRule",
        "metadata": {"name": mirrored.namespace},
        "spec": {
            "destinationRef": {"name": "destination"},
            "rules": [{"scope": "Cluster", "resources": ["clusterroles"]}],
        },
    }
    refused = admin_user(mirrored).send(document, dryRun="All")
    assert refused.status == 422
    assert "namespace" in refused.text
    document["spec"]["destinationRef"]["namespace"] = mirrored.namespace
    assert admin_user(mirrored).send(document, dryRun="All").ok


@pytest.mark.scenario("A11")
def test_two_destinations_never_share_a_folder(mirrored: MirroredNamespace) -> None:
    """The second gets OverlappingBaseFolder; when the first is deleted, its folder is free."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    eventually(mirrored.files, "the first file")
    tip = branch_tips(mirrored.path)["main"]
    second = _move_to_namespace(mirrored.namespace, mirrored.git_destination(), "second")
    mirrored.admin.apply(second)
    condition = mirrored.await_condition("gitdestination", "second", "OverlappingBaseFolder")
    assert f"{mirrored.namespace}/destination" in condition["message"]
    assert mirrored.condition("gitdestination", "destination")["status"] == "True"
    assert branch_tips(mirrored.path)["main"] == tip
    admin_user(mirrored).delete("watchrule", "rule")
    admin_user(mirrored).delete("gitdestination", "destination")
    rule = mirrored.watch_rule({"resources": ["configmaps"]})
    rule["spec"]["destinationRef"]["name"] = "second"
    mirrored.admin.apply(rule)
    mirrored.await_condition("gitdestination", "second", "Ready")
    mirrored.admin.apply(mirrored.config_map("two", a="1"))
    eventually(
        lambda: (
            f"destination: {mirrored.namespace}/second"
            in mirrored.git("show", f"main:{mirrored.folder}/.windlass-claim")
        ),
        "the claim of the second",
    )
    # Without any rule for two seconds the first file went, and comes back after the claim.
    eventually(lambda: len(mirrored.files()) == 2, "both files")


@pytest.mark.scenario("A11")
def test_folders_within_each_other_overlap_and_neighbours_do_not(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Below and above the held folder is refused and counted; a like name beside it is not."""
    counter = "gitopsreverser_ownership_conflicts_total"
    mirrored.folder, before = "a/b", operator.metric(counter)
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    # Its claim is in Git: among destinations of one second the name would decide.
    eventually(mirrored.files, "the first file")
    folders = {"below": "a/b/c", "above": "a", "beside": "a/bc"}
    for name, folder in folders.items():
        made = mirrored.git_destination({"baseFolder": folder})
        mirrored.admin.apply(_move_to_namespace(mirrored.namespace, made, name))
    for name in ("below", "above"):
        mirrored.await_condition("gitdestination", name, "OverlappingBaseFolder")
        assert mirrored.condition("gitdestination", name, "Stalled")["status"] == "True"
    mirrored.await_condition("gitdestination", "beside", "Ready")
    eventually(lambda: operator.metric(counter) >= before + 2, "two conflicts counted")


@pytest.mark.scenario("A11")
def test_two_destinations_made_at_once_never_share_a_folder(mirrored: MirroredNamespace) -> None:
    """Before any claim is in Git one of them holds the folder, and only one."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    second = _move_to_namespace(mirrored.namespace, mirrored.git_destination(), "second")
    both = mirrored.watch_rule({"resources": ["configmaps"]})
    other = _move_to_namespace(
        mirrored.namespace, mirrored.watch_rule({"resources": ["secrets"]}), "other"
    )
    other["spec"]["destinationRef"]["name"] = "second"
    mirrored.admin.apply(
        mirrored.secret(), mirrored.git_destination(), second, both, other, mirrored.repo_config()
    )
    names = ("destination", "second")
    reasons = eventually(
        lambda: (
            found
            if "OverlappingBaseFolder"
            in (
                found := {
                    name: mirrored.condition("gitdestination", name).get("reason") for name in names
                }
            ).values()
            else {}
        ),
        "one of them refused",
    )
    holder = next(name for name in names if reasons[name] != "OverlappingBaseFolder")
    mirrored.await_condition("gitdestination", holder, "Ready")
    eventually(mirrored.files, "the holder's file")
    kinds = {path.split("/")[1] for path in mirrored.files()}
    assert len(kinds) == 1


@pytest.mark.scenario("A11")
def test_a_destination_that_never_pushed_blocks_no_other_namespace(
    mirrored: MirroredNamespace, team: ApiUser
) -> None:
    """GIT-2: an older destination reserves nothing; the first one to push has the folder."""
    mirrored.admin.apply(
        mirrored.secret(), mirrored.repo_config({"allowedNamespaces": [team.namespace]})
    )
    squatter = _move_to_namespace(team.namespace, mirrored.git_destination(), "squatter")
    squatter["spec"]["repoRef"]["namespace"] = mirrored.namespace
    team.apply(squatter)
    _await(team, "gitdestination", "squatter", "Ready")
    made = team.get("gitdestination", "squatter")["metadata"]["creationTimestamp"]
    older = datetime.fromisoformat(made) + timedelta(seconds=1)
    eventually(lambda: datetime.now(UTC) > older, "a later second")
    mirrored.admin.apply(
        mirrored.config_map("one", a="1"),
        mirrored.git_destination(),
        mirrored.watch_rule({"resources": ["configmaps"]}),
    )
    mirrored.await_condition("gitdestination", "destination", "Ready")
    eventually(mirrored.files, "the file of the first to push")
    condition = _await(team, "gitdestination", "squatter", "OverlappingBaseFolder")
    assert mirrored.namespace not in condition["message"]


def test_a_destination_that_is_made_again_completes_its_first_sync_again(
    mirrored: MirroredNamespace,
) -> None:
    """5.2: also where Git has all its files; nothing is pushed for that."""

    def synced() -> set[str]:
        rows = admin_user(mirrored).list("events")
        return {
            row["involvedObject"]["uid"] for row in rows if row["reason"] == "FirstSyncCompleted"
        }

    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    first = eventually(synced, "the first sync")
    tip = branch_tips(mirrored.path)["main"]
    admin_user(mirrored).delete("gitdestination", "destination")
    mirrored.admin.apply(mirrored.git_destination())
    eventually(lambda: synced() > first, "the first sync of its successor")
    assert branch_tips(mirrored.path)["main"] == tip
    status = mirrored.admin.get("gitdestination", "destination")["status"]
    assert (status["objects"], status["pending"]) == (1, 0)


def test_a_destination_that_is_made_again_shows_nothing_of_its_predecessor(
    mirrored: MirroredNamespace,
) -> None:
    """One that may not write is never Ready, however soon it follows one that was."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    admin_user(mirrored).delete("gitdestination", "destination")
    mirrored.admin.apply(mirrored.git_destination({"branch": "other"}))
    uid = mirrored.admin.get("gitdestination", "destination")["metadata"]["uid"]
    mirrored.await_condition("gitdestination", "destination", "BranchNotAllowed")
    mirrored.await_condition("watchrule", "rule", "GitDestinationNotReady")

    def reasons() -> set[str]:
        rows = admin_user(mirrored).list("events")
        return {row["reason"] for row in rows if row["involvedObject"]["uid"] == uid}

    assert eventually(reasons, "its Event") == {"BranchNotAllowed"}
