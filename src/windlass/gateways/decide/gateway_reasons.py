"""Which of the fixed reasons an agent gives for what went wrong, and when it tries again.

| what went wrong | status | reason | again |
|---|---|---|---|
| Git cannot be reached, nothing is on the disk | Pending | WaitingForGit | see below |
| Git cannot be reached, an older tree is there | Error, degraded | SourceUnavailable | see below |
| waiting for a Secret, for the volume | Pending or Error | as it says | when it says |
| a person has to act | Error | as it says | in 5 minutes, or with the next change |
| anything else | Error | as it says, else Internal | with backoff |

Causes of Git that only a person can end are looked at every 5 minutes, others with
backoff. A reason that is not on the list would be refused by nobody and understood by
nobody: it becomes Internal, with its own word in front of the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.git.errors import GitError, InsecureTransport, SecretMalformed
from windlass.git.format import failures

PERSON_SECONDS = 300.0

PENDING = frozenset(
    {
        "Planning",
        "Staging",
        "Applying",
        "Scanning",
        "Retrying",
        "WaitingForGit",
        "WaitingForController",
        "WaitingForCredential",
        "PausedWithoutData",
        "HeldByRollout",
        "HoldingForMaster",
        "ConflictPending",
        "WaitingForDesigner",
    }
)
ERRORS = frozenset(
    {
        "SourceMissing",
        "NoRouting",
        "MappingTypeMismatch",
        "ScriptsProjectUnknown",
        "ModulesPathUnavailable",
        "TemplateError",
        "ConfigSyntaxError",
        "UnsafePath",
        "LfsPointer",
        "TooLarge",
        "MassDeleteGuard",
        "DuplicateSystemName",
        "VolumeLocked",
        "VolumeReadOnly",
        "DiskFull",
        "SnapshotFailed",
        "DesignerSessionActive",
        "GatewayUnreachable",
        "ScanUnauthorized",
        "ScanUnsupported",
        "ScanFailed",
        "ScanIncomplete",
        "RolledBack",
        "SourceVolumeMissing",
        "AgentNotRunning",
        "SourceUnavailable",
        "Internal",
    }
)

# Routing that cannot be used is no routing; the message says which part of it.
_RENAMED = {"ProfilesInvalid": "NoRouting"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What an agent says about a failure; `after` is None where backoff decides."""

    status: Literal["Pending", "Error"]
    reason: str
    message: str
    after: float | None = None
    is_source: bool = False


def trouble(error: WindlassError, *, has_data: bool) -> Trouble:
    """A failure in the words of the table above."""
    if isinstance(error, GitError | InsecureTransport | SecretMalformed):
        return _source(error, has_data=has_data)
    reason = _RENAMED.get(error.reason, error.reason)
    message = error.message if reason == error.reason else f"{error.reason}: {error.message}"
    after = _after(error)
    if reason in PENDING:
        return Trouble("Pending", reason, message, after)
    if reason in ERRORS:
        return Trouble("Error", reason, message, after)
    return Trouble("Error", "Internal", f"{error.reason}: {error.message}", after)


def cause(error: WindlassError) -> str:
    """Why Git could not be read, as one of the causes that users see (GRF-8)."""
    found = failures.describe_cause(error.reason, error.message)
    # An agent asks for ids; a name that is gone is an id that cannot be had.
    return "CommitUnreachable" if found == "RefNotFound" else found


def _source(error: WindlassError, *, has_data: bool) -> Trouble:
    found = cause(error)
    message = f"{found}: {error.message}{failures.remedy(found)}"
    if found == "DiskFull":
        return Trouble("Error", "DiskFull", error.message)
    if found == "TooLarge":
        return Trouble("Error", "TooLarge", error.message, PERSON_SECONDS)
    after = PERSON_SECONDS if found in failures.NEEDS_A_PERSON else None
    if has_data:
        return Trouble("Error", "SourceUnavailable", message, after, is_source=True)
    return Trouble("Pending", "WaitingForGit", message, after, is_source=True)


def _after(error: WindlassError) -> float | None:
    if isinstance(error, Waiting):
        return error.after
    if isinstance(error, Stalled):
        return error.after if error.after is not None else PERSON_SECONDS
    return None
