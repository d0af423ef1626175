"""Who may refer to whom, and what a refusal says."""

from __future__ import annotations

import pytest

from windlass.objects.names import Key
from windlass.reverser.selection import reference_grants

REPO = Key("platform", "repo")
DEST = Key("platform", "prod")
DENIED = (
    "GitRepoConfig platform/repo not found or not shared with namespace team-a; ask its owner "
    "to add team-a to spec.allowedNamespaces, or create one in team-a"
)


@pytest.mark.parametrize("grants", [(), ("other",)])
def test_own_namespace_needs_no_grant(grants: tuple[str, ...]) -> None:
    """REF-1: inside one namespace a reference is always allowed."""
    assert reference_grants.check_repository_ref("platform", REPO, grants).allowed
    assert reference_grants.check_destination_ref("platform", DEST, grants).allowed


@pytest.mark.parametrize("grants", [("team-a",), ("*",), ("x", "team-a")])
def test_grant_opens_another_namespace(grants: tuple[str, ...]) -> None:
    """REF-2: the referenced object lists the referrer or all."""
    assert reference_grants.check_repository_ref("team-a", REPO, grants).allowed
    assert reference_grants.check_destination_ref("team-a", DEST, grants).allowed


def test_refusal_does_not_reveal_whether_the_object_exists() -> None:
    """REF-3: the same text for a missing and for an ungranted object."""
    missing = reference_grants.check_repository_ref("team-a", REPO, None)
    ungranted = reference_grants.check_repository_ref("team-a", REPO, ("team-b", "team-aa"))
    assert missing == ungranted
    assert (missing.reason, missing.message) == ("AccessDenied", DENIED)
    assert missing.stalled
    assert not missing.allowed


def test_refusal_names_the_kind() -> None:
    """REF-3: the refusal of a WatchRule names the GitDestination."""
    found = reference_grants.check_destination_ref("team-a", DEST, None)
    assert found.message.startswith("GitDestination platform/prod not found or not shared with")


@pytest.mark.parametrize(
    ("permission", "reason"),
    [
        (reference_grants.check_repository_ref("platform", REPO, None), "GitRepoConfigNotFound"),
        (reference_grants.check_destination_ref("platform", DEST, None), "GitDestinationNotFound"),
    ],
)
def test_a_missing_object_of_the_own_namespace_is_waited_for(
    permission: reference_grants.Permission, reason: str
) -> None:
    """2.3: at home a missing object is named as missing, and may still come."""
    assert permission.reason == reason
    assert not permission.stalled


def cluster(wanted: Key, *, exists: bool = True) -> reference_grants.Permission:
    """The verdict about a ClusterWatchRule."""
    return reference_grants.check_cluster_destination_ref(
        wanted,
        exists=exists,
        install_namespace="windlass-system",
        allowed_namespaces=("platform",),
    )


@pytest.mark.parametrize("namespace", ["windlass-system", "platform"])
def test_cluster_rule_feeds_chosen_namespaces(namespace: str) -> None:
    """REF-4: the install namespace and those of the flag need no grant."""
    assert cluster(Key(namespace, "prod")).allowed
    assert cluster(Key(namespace, "prod"), exists=False).reason == "GitDestinationNotFound"


@pytest.mark.parametrize("exists", [True, False])
def test_cluster_rule_feeds_no_other_namespace(exists: bool) -> None:
    """REF-4: elsewhere it is refused without reading the object."""
    found = cluster(Key("team-a", "mine"), exists=exists)
    assert found.reason == "AccessDenied"
    assert found.message == cluster(Key("team-a", "mine")).message
    assert "--cluster-destination-namespaces=team-a" in found.message


def test_cluster_rule_needs_a_namespace() -> None:
    """2.3: a ClusterWatchRule has no namespace of its own to fall back on."""
    found = cluster(Key("", "prod"))
    assert (found.reason, found.stalled) == ("GitDestinationInvalid", True)
