"""What an agent says about a failure."""

from __future__ import annotations

import pytest

from windlass.base.errors import Retryable, Stalled, Waiting, WindlassError
from windlass.gateways.agent import failure_reasons
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.git.errors import GitError, InsecureTransport


@pytest.mark.parametrize(
    ("error", "cause", "after"),
    [
        (GitError("Unavailable", "refused"), "Unavailable", None),
        (GitError("Unavailable", "SSL certificate problem: self-signed"), "TLSFailed", 300.0),
        (GitError("Unavailable", "the requested URL returned error: 301"), "HostBlocked", 300.0),
        (GitError("NotFound", "no such repository"), "RepoNotFound", 300.0),
        (GitError("RefNotFound", "not our ref"), "CommitUnreachable", 300.0),
        (GitError("StoreCorrupt", "bad"), "Corrupt", None),
        (InsecureTransport("http is refused"), "HostBlocked", 300.0),
    ],
)
def test_git_is_told_by_its_cause(error: WindlassError, cause: str, after: float | None) -> None:
    """With data the gateway is degraded, without it waits."""
    there = failure_reasons.failure_reason(error, has_data=True)
    assert (there.status, there.reason, there.is_source_failure) == (
        "Error",
        "SourceUnavailable",
        True,
    )
    assert there.message.startswith(f"{cause}: ")
    assert there.retry_seconds == after
    empty = failure_reasons.failure_reason(error, has_data=False)
    assert (empty.status, empty.reason) == ("Pending", "WaitingForGit")


@pytest.mark.parametrize(
    ("error", "status", "reason", "after"),
    [
        (SyncRefused("ConfigSyntaxError", "a", "a:1:1"), "Error", "ConfigSyntaxError", 300.0),
        (SyncRefused("ProfilesInvalid", "a", "bad"), "Error", "NoRouting", 300.0),
        (Stalled("RolledBack", "x", after=7.0), "Error", "RolledBack", 7.0),
        (Retryable("DiskFull", "full"), "Error", "DiskFull", None),
        (Retryable("Retrying", "changed"), "Pending", "Retrying", None),
        (Waiting("WaitingForCredential", "x", after=15.0), "Pending", "WaitingForCredential", 15.0),
        (Waiting("VolumeLocked", "x", after=10.0), "Error", "VolumeLocked", 10.0),
        (WindlassError("Strange", "odd"), "Error", "Internal", None),
        (GitError("DiskFull", "full"), "Error", "DiskFull", None),
        (GitError("TooLarge", "large"), "Error", "TooLarge", 300.0),
    ],
)
def test_other_failures_keep_their_reason(
    error: WindlassError, status: str, reason: str, after: float | None
) -> None:
    """As long as it is one of the fixed ones."""
    found = failure_reasons.failure_reason(error, has_data=True)
    assert (found.status, found.reason, found.retry_seconds) == (status, reason, after)
    if reason in ("Internal", "NoRouting"):
        assert found.message.startswith(f"{error.reason}: ")


def test_the_lists_do_not_overlap() -> None:
    """A reason is either a wait or an error."""
    assert failure_reasons.PENDING_REASONS.isdisjoint(failure_reasons.ERROR_REASONS)
