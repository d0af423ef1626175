"""Closed lists of reasons that users, alerts and tests rely on.

The value of a member is used in a metric label, an event or a condition. Renaming one
breaks alerts of users.
"""

from __future__ import annotations

from enum import StrEnum


class SkipReason(StrEnum):
    """Why a change or an object makes no commit."""

    OPERATION_MASKED = "OperationMasked"
    STATUS_ONLY = "StatusOnly"
    CONTROLLER_OWNED = "ControllerOwned"
    NOISE = "Noise"
    TERMINATING = "Terminating"
    PATH_OCCUPIED = "PathOccupied"
    UNDECODABLE = "Undecodable"
    OWN_OBJECT = "OwnObject"
    PRUNE_RETAINED = "PruneRetained"


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
    PUSH_RACED = "PushRaced"
    GIT_UNAVAILABLE = "GitUnavailable"
    GIT_RECOVERED = "GitRecovered"
    REMOTE_REWOUND = "RemoteRewound"
    TYPE_FORBIDDEN = "TypeForbidden"
    OBJECT_UNDECODABLE = "ObjectUndecodable"
    OBJECTS_REFUSED = "ObjectsRefused"
    SECRETS_REDACTED = "SecretsRedacted"
    SECRETS_EXPOSED = "SecretsExposed"
    ATTRIBUTION_LOST = "AttributionLost"
    ATTRIBUTION_RECOVERED = "AttributionRecovered"
