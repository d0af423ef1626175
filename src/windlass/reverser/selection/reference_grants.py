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
from datetime import datetime
from typing import Literal

from windlass.objects.names import Key

_GRACE_SECONDS = 2.0
"""How long a new object waits for the one it names: both may be applied together."""
_CREATION_PRECISION = 1.0  # seconds; creationTimestamp is rounded down to it

TargetKind = Literal["GitRepoConfig", "GitDestination"]
RefusalReason = Literal[
    "AccessDenied",
    "GitRepoConfigNotFound",
    "GitDestinationNotFound",
    "GitDestinationInvalid",
]


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a reference is allowed; `stalled` means that only a change of an object helps.

    A target missing from the referrer's own namespace may still be created, so that
    refusal waits; the others stall.
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
    referrer_namespace: str, target: Key, grants: Collection[str] | None
) -> Permission:
    """Whether a GitDestination may name a GitRepoConfig; `grants` is None if that is absent."""
    return _check_grant("GitRepoConfig", referrer_namespace, target, grants)


def check_destination_ref(
    referrer_namespace: str, target: Key, grants: Collection[str] | None
) -> Permission:
    """Whether a WatchRule may name a GitDestination; `grants` is None if that is absent."""
    return _check_grant("GitDestination", referrer_namespace, target, grants)


def check_cluster_destination_ref(
    target: Key, *, exists: bool, install_namespace: str, allowed_namespaces: Collection[str]
) -> Permission:
    """REF-4: whether a ClusterWatchRule may name a GitDestination.

    It needs no grant but is limited to certain namespaces, because whoever can edit the
    destination can redirect data of the whole cluster. The namespace is checked before
    the existence of the object.
    """
    if not target.namespace:
        return Permission(
            "GitDestinationInvalid",
            "spec.destinationRef.namespace is required in a ClusterWatchRule",
        )
    if target.namespace != install_namespace and target.namespace not in allowed_namespaces:
        return Permission("AccessDenied", _namespace_not_allowed_message(target, install_namespace))
    return ALLOWED if exists else _not_found("GitDestination", target)


def seconds_of_grace(permission: Permission, created: datetime | None, now: datetime) -> float:
    """How long the object that a new one names may still be missing without being a failure.

    Not so where a grant is missing: that has to look the same whether or not the object exists.
    """
    if permission.allowed or permission.stalled or created is None:
        return 0.0
    most = _GRACE_SECONDS + _CREATION_PRECISION
    # The clock of the API server may be ahead of ours.
    return min(most, max(0.0, most - (now - created).total_seconds()))


def _check_grant(
    kind: TargetKind, referrer: str, target: Key, grants: Collection[str] | None
) -> Permission:
    if target.namespace == referrer:
        return ALLOWED if grants is not None else _not_found(kind, target)
    if grants is not None and (referrer in grants or "*" in grants):
        return ALLOWED
    return Permission("AccessDenied", access_denied_message(kind, target, referrer))


def access_denied_message(kind: TargetKind, target: Key, referrer: str) -> str:
    """REF-3: the same text, whether or not the object exists."""
    return (
        f"{kind} {target} not found or not shared with namespace {referrer}; ask its owner to add "
        f"{referrer} to spec.allowedNamespaces, or create one in {referrer}"
    )


def _namespace_not_allowed_message(target: Key, install_namespace: str) -> str:
    return (
        f"GitDestination {target} is not allowed as a destination for ClusterWatchRules; use one "
        f"in namespace {install_namespace}, or start windlass with "
        f"--cluster-destination-namespaces={target.namespace}"
    )


def _not_found(kind: TargetKind, target: Key) -> Permission:
    reason: RefusalReason = (
        "GitRepoConfigNotFound" if kind == "GitRepoConfig" else "GitDestinationNotFound"
    )
    return Permission(reason, f"{kind} {target} not found; create it or fix the reference")
