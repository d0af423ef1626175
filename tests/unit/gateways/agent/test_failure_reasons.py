"""What an agent reports about a failure."""

from __future__ import annotations

import random

import pytest
import structlog

from windlass.base.clock import SystemClock
from windlass.base.errors import Retryable, Stalled, Waiting, WindlassError
from windlass.gateways.agent import failure_reasons
from windlass.gateways.agent.step_retries import StepRetries
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.git.errors import GitError, InsecureTransport


@pytest.mark.parametrize(
    ("error", "cause", "retry_seconds"),
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
def test_a_git_failure_is_reported_with_its_cause(
    error: WindlassError, cause: str, retry_seconds: float | None
) -> None:
    """A gateway with data is degraded; one without waits."""
    with_data = failure_reasons.failure_reason(error, has_data=True)
    assert (with_data.status, with_data.reason, with_data.is_source_failure) == (
        "Error",
        "SourceUnavailable",
        True,
    )
    assert with_data.message.startswith(f"{cause}: ")
    assert with_data.retry_seconds == retry_seconds
    without_data = failure_reasons.failure_reason(error, has_data=False)
    assert (without_data.status, without_data.reason) == ("Pending", "WaitingForGit")


@pytest.mark.parametrize(
    ("error", "status", "reason", "retry_seconds"),
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
    error: WindlassError, status: str, reason: str, retry_seconds: float | None
) -> None:
    """If the reason is on the closed list; any other becomes Internal or NoRouting."""
    failure = failure_reasons.failure_reason(error, has_data=True)
    assert (failure.status, failure.reason, failure.retry_seconds) == (
        status,
        reason,
        retry_seconds,
    )
    if reason in ("Internal", "NoRouting"):
        assert failure.message.startswith(f"{error.reason}: ")


def test_pending_and_error_reasons_do_not_overlap() -> None:
    """A reason means either Pending or Error."""
    assert failure_reasons.PENDING_REASONS.isdisjoint(failure_reasons.ERROR_REASONS)


def test_a_failure_is_logged_under_the_name_of_its_step() -> None:
    """A scan that fails is no failed sync: the files are in place."""
    with structlog.testing.capture_logs() as lines:
        StepRetries(SystemClock(), random.Random(1)).record_failure(
            "scan", (), Retryable("ScanFailed", "the gateway answered 500"), has_data=True
        )
    assert [line["event"] for line in lines] == ["scan failed"]
