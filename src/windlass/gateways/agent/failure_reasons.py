"""Maps an error to one of the fixed gateway reasons, and to the delay of the retry.

| error | status | reason | retry |
|---|---|---|---|
| Git cannot be reached, nothing is on the disk | Pending | WaitingForGit | see below |
| Git cannot be reached, an older tree is synced | Error, degraded | SourceUnavailable | see below |
| waiting for a Secret, for the volume | Pending or Error | as in the error | as in the error |
| a user has to act | Error | as in the error | in 5 minutes, or with the next change |
| anything else | Error | as in the error, else Internal | with backoff |

Git causes that only a user can fix are retried every 5 minutes, others with backoff. A reason that
is not on the list becomes Internal, with the original reason in front of the message: consumers
know the listed ones only.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.git.errors import GitError, InsecureTransport, SecretMalformed
from windlass.git.format import failures

HUMAN_RETRY_SECONDS = 300.0

PENDING_REASONS = frozenset(
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
ERROR_REASONS = frozenset(
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

# Invalid routing is reported like missing routing; the message names the invalid part.
_RENAMED = {"ProfilesInvalid": "NoRouting"}


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Status, reason and message of a failure; `retry_seconds` is None where backoff decides."""

    status: Literal["Pending", "Error"]
    reason: str
    message: str
    retry_seconds: float | None = None
    is_source_failure: bool = False


def failure_reason(error: WindlassError, *, has_data: bool) -> FailureReason:
    """The reason of an error by the table above; `has_data` is whether a tree was synced."""
    if isinstance(error, GitError | InsecureTransport | SecretMalformed):
        return _source_failure(error, has_data=has_data)
    reason = _RENAMED.get(error.reason, error.reason)
    message = error.message if reason == error.reason else f"{error.reason}: {error.message}"
    after = _retry_after(error)
    if reason in PENDING_REASONS:
        return FailureReason("Pending", reason, message, after)
    if reason in ERROR_REASONS:
        return FailureReason("Error", reason, message, after)
    return FailureReason("Error", "Internal", f"{error.reason}: {error.message}", after)


def git_cause(error: WindlassError) -> str:
    """The cause of a Git error, as one of the causes that users see (GRF-8)."""
    cause = failures.describe_cause(error.reason, error.message)
    # An agent fetches commits by id, so a missing name means an unreachable commit.
    return "CommitUnreachable" if cause == "RefNotFound" else cause


def _source_failure(error: WindlassError, *, has_data: bool) -> FailureReason:
    cause = git_cause(error)
    message = f"{cause}: {error.message}{failures.remedy(cause)}"
    if cause == "DiskFull":
        return FailureReason("Error", "DiskFull", error.message)
    if cause == "TooLarge":
        return FailureReason("Error", "TooLarge", error.message, HUMAN_RETRY_SECONDS)
    after = HUMAN_RETRY_SECONDS if cause in failures.NEEDS_A_PERSON else None
    if has_data:
        return FailureReason("Error", "SourceUnavailable", message, after, is_source_failure=True)
    return FailureReason("Pending", "WaitingForGit", message, after, is_source_failure=True)


def _retry_after(error: WindlassError) -> float | None:
    if isinstance(error, Waiting):
        return error.after
    if isinstance(error, Stalled):
        return error.after if error.after is not None else HUMAN_RETRY_SECONDS
    return None
