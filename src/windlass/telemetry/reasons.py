"""The closed lists of reasons that users, alerts, tests rely on.

A member's value is what stands in a metric label, an event or a condition. Renaming
one breaks somebody's alert.
"""

from __future__ import annotations

from enum import StrEnum


class SkipReason(StrEnum):
    """Why a change or an object makes no commit."""

    NO_RULE_MATCH = "NoRuleMatch"
    NAMESPACE_NOT_COVERED = "NamespaceNotCovered"
    OPERATION_MASKED = "OperationMasked"
    STATUS_ONLY = "StatusOnly"
    CONTROLLER_OWNED = "ControllerOwned"
    NOISE = "Noise"
    SECRET_OMITTED = "SecretOmitted"  # noqa: S105 - a reason, not a password
    SECRET_POLICY_BLOCKED = "SecretPolicyBlocked"  # noqa: S105
    TERMINATING = "Terminating"
    IGNORED_USER = "IgnoredUser"
    IGNORED_FIELD_MANAGER = "IgnoredFieldManager"
    PATH_COLLISION = "PathCollision"
    PATH_OCCUPIED = "PathOccupied"
    LAYOUT_AMBIGUOUS = "LayoutAmbiguous"
    UNDECODABLE = "Undecodable"
    OWN_OBJECT = "OwnObject"
    SUSPENDED = "Suspended"
    PRUNE_RETAINED = "PruneRetained"
    CONTESTED = "Contested"
    NOT_SERVED = "NotServed"
    SUBRESOURCE_ONLY = "SubresourceOnly"
    MISSING_VERB = "MissingVerb"
    SCOPE_MISMATCH = "ScopeMismatch"
    KIND_NOT_UNIQUE = "KindNotUnique"
    DISCOVERY_DEGRADED = "DiscoveryDegraded"
    ABSENCE_PENDING = "AbsencePending"
    FORBIDDEN = "Forbidden"
    EXCLUDED_BY_DEFAULT = "ExcludedByDefault"
    EXCLUDED_BY_FLAG = "ExcludedByFlag"
    NEVER_MIRRORED = "NeverMirrored"


TYPE_REASONS = frozenset(
    {
        SkipReason.NOT_SERVED,
        SkipReason.SUBRESOURCE_ONLY,
        SkipReason.MISSING_VERB,
        SkipReason.SCOPE_MISMATCH,
        SkipReason.KIND_NOT_UNIQUE,
        SkipReason.DISCOVERY_DEGRADED,
        SkipReason.ABSENCE_PENDING,
        SkipReason.FORBIDDEN,
        SkipReason.EXCLUDED_BY_DEFAULT,
        SkipReason.EXCLUDED_BY_FLAG,
        SkipReason.NEVER_MIRRORED,
    }
)
"""The reasons for which a whole type is refused; each refused type has exactly one."""


class EventReason(StrEnum):
    """What an Event on one of our objects reports; transitions only."""

    BRANCH_CREATED = "BranchCreated"
    DESTINATION_CLAIMED = "DestinationClaimed"
    DESTINATION_MOVED = "DestinationMoved"
    FIRST_SYNC_COMPLETED = "FirstSyncCompleted"
    ACCESS_DENIED = "AccessDenied"
    OVERLAPPING_BASE_FOLDER = "OverlappingBaseFolder"
    FOLDER_CLAIMED = "FolderClaimed"
    PUSH_REJECTED = "PushRejected"
    GIT_UNAVAILABLE = "GitUnavailable"
    GIT_RECOVERED = "GitRecovered"
    REMOTE_REWOUND = "RemoteRewound"
    TYPE_FORBIDDEN = "TypeForbidden"
    OBJECT_UNDECODABLE = "ObjectUndecodable"
    SECRETS_REDACTED = "SecretsRedacted"
    ATTRIBUTION_LOST = "AttributionLost"
    ATTRIBUTION_RECOVERED = "AttributionRecovered"
