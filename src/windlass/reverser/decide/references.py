"""Whether one object may use another, and what its author is told if not.

A reference inside one namespace is always allowed (REF-1); one to another namespace must
be granted by the object it names (REF-2). What always holds: the text for "does not
exist" and for "not granted" is the same (REF-3), so nobody learns from a refusal what
another namespace holds. A refused reference stops writing and removes nothing (REF-5).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import Key

TargetKind = Literal["GitRepoConfig", "GitDestination"]
Refusal = Literal[
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

    reason: Refusal | None = None
    message: str = ""

    @property
    def allowed(self) -> bool:
        return self.reason is None

    @property
    def stalled(self) -> bool:
        return self.reason in ("AccessDenied", "GitDestinationInvalid")


ALLOWED = Permission()


def repository(referrer_namespace: str, repo: Key, grants: Collection[str] | None) -> Permission:
    """A GitDestination naming a GitRepoConfig; `grants` is None if that does not exist."""
    return _granted("GitRepoConfig", referrer_namespace, repo, grants)


def destination(referrer_namespace: str, wanted: Key, grants: Collection[str] | None) -> Permission:
    """A WatchRule naming a GitDestination; `grants` is None if that does not exist."""
    return _granted("GitDestination", referrer_namespace, wanted, grants)


def cluster_destination(
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
        return Permission("AccessDenied", _outside(wanted, install_namespace))
    return ALLOWED if exists else _missing("GitDestination", wanted)


def _granted(
    kind: TargetKind, referrer: str, wanted: Key, grants: Collection[str] | None
) -> Permission:
    if wanted.namespace == referrer:
        return ALLOWED if grants is not None else _missing(kind, wanted)
    if grants is not None and (referrer in grants or "*" in grants):
        return ALLOWED
    return Permission("AccessDenied", denied(kind, wanted, referrer))


def denied(kind: TargetKind, wanted: Key, referrer: str) -> str:
    """REF-3: the one text, whether or not the object exists."""
    return (
        f"{kind} {wanted} does not exist or does not grant namespace {referrer}; "
        f"its owner can add it to spec.allowedNamespaces, or create one in {referrer}"
    )


def _outside(wanted: Key, install_namespace: str) -> str:
    return (
        f"GitDestination {wanted} lies in a namespace that cluster rules may not feed; "
        f"name one in {install_namespace}, or start windlass with "
        f"--cluster-destination-namespaces={wanted.namespace}"
    )


def _missing(kind: TargetKind, wanted: Key) -> Permission:
    reason: Refusal = (
        "GitRepoConfigNotFound" if kind == "GitRepoConfig" else "GitDestinationNotFound"
    )
    return Permission(reason, f"{kind} {wanted} does not exist; create it or fix the reference")
