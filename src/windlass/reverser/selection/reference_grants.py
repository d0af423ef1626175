"""Whether one object may reference another across namespaces, and the message if it may not.

A reference inside one namespace is always allowed (REF-1); one to another namespace must
be granted by the object it names (REF-2). What always holds: the text for "does not
exist" and for "not granted" is the same (REF-3), so a refusal reveals nothing about
another namespace. A refused reference stops writing and removes nothing (REF-5).

Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import Key

TargetKind = Literal["GitRepoConfig", "GitDestination"]
RefusalReason = Literal[
    "AccessDenied",
    "GitRepoConfigNotFound",
    "GitDestinationNotFound",
    "GitDestinationInvalid",
]


@dataclass(frozen=True, slots=True)
class Permission:
    """The verdict about a reference; `stalled` means that only a person can heal it.

    A target missing from the referrer's own namespace may still be created, so that
    verdict waits; the others stall.
    """

    reason: RefusalReason | None = None
    message: str = ""

    @property
    def allowed(self) -> bool:
        return self.reason is None

    @property
    def stalled(self) -> bool:
        return self.reason in ("AccessDenied", "GitDestinationInvalid")


ALLOWED = Permission()


def check_repository_ref(
    referrer_namespace: str, repo: Key, grants: Collection[str] | None
) -> Permission:
    """A GitDestination naming a GitRepoConfig; `grants` is None if that does not exist."""
    return _check_grant("GitRepoConfig", referrer_namespace, repo, grants)


def check_destination_ref(
    referrer_namespace: str, wanted: Key, grants: Collection[str] | None
) -> Permission:
    """A WatchRule naming a GitDestination; `grants` is None if that does not exist."""
    return _check_grant("GitDestination", referrer_namespace, wanted, grants)


def check_cluster_destination_ref(
    wanted: Key, *, exists: bool, install_namespace: str, allowed_namespaces: Collection[str]
) -> Permission:
    """REF-4: a ClusterWatchRule naming a GitDestination.

    It needs no grant but only certain namespaces will do, because whoever edits the
    destination redirects data of the whole cluster. The namespace is judged before the
    object is looked at.
    """
    if not wanted.namespace:
        return Permission(
            "GitDestinationInvalid",
            "spec.destinationRef.namespace is required in a ClusterWatchRule",
        )
    if wanted.namespace != install_namespace and wanted.namespace not in allowed_namespaces:
        return Permission("AccessDenied", _namespace_not_allowed_message(wanted, install_namespace))
    return ALLOWED if exists else _not_found("GitDestination", wanted)


def _check_grant(
    kind: TargetKind, referrer: str, wanted: Key, grants: Collection[str] | None
) -> Permission:
    if wanted.namespace == referrer:
        return ALLOWED if grants is not None else _not_found(kind, wanted)
    if grants is not None and (referrer in grants or "*" in grants):
        return ALLOWED
    return Permission("AccessDenied", access_denied_message(kind, wanted, referrer))


def access_denied_message(kind: TargetKind, wanted: Key, referrer: str) -> str:
    """REF-3: the one text, whether or not the object exists."""
    return (
        f"{kind} {wanted} does not exist or does not grant namespace {referrer}; "
        f"its owner can add it to spec.allowedNamespaces, or create one in {referrer}"
    )


def _namespace_not_allowed_message(wanted: Key, install_namespace: str) -> str:
    return (
        f"GitDestination {wanted} lies in a namespace that cluster rules may not feed; "
        f"name one in {install_namespace}, or start windlass with "
        f"--cluster-destination-namespaces={wanted.namespace}"
    )


def _not_found(kind: TargetKind, wanted: Key) -> Permission:
    reason: RefusalReason = (
        "GitRepoConfigNotFound" if kind == "GitRepoConfig" else "GitDestinationNotFound"
    )
    return Permission(reason, f"{kind} {wanted} does not exist; create it or fix the reference")
