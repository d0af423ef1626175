"""The rules of scans: which a gateway needs, in which order, and how results combine.

A scan makes a running gateway read its files again. A required kind whose completion is not known
stays pending, so that the next attempt scans without copying files.

| Mode | Scanned | If a scan fails | Counts as synced |
|---|---|---|---|
| Required | in order, the first failure skips the rest | reason set, it and the rest pending | no |
| BestEffort | in order, all of them | warning, nothing pending | yes |
| Off | never | cannot | yes |

BestEffort skips nothing, because nothing would repeat what it skipped.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.gateways.wire.metadata import SyncPolicy

REFUSAL_RETRY_SECONDS = 300.0
"""Delay after a refusal that only a user can resolve."""

_MAX_MESSAGE_LENGTH = 512


class ScanKind(StrEnum):
    """The parts of its data that a gateway can scan."""

    PROJECTS = "projects"
    CONFIG = "config"


class ScanMode(StrEnum):
    """How much a sync depends on its scans."""

    REQUIRED = "Required"
    BEST_EFFORT = "BestEffort"
    OFF = "Off"


class ScanOrder(StrEnum):
    """The order of the kinds."""

    PROJECTS_CONFIG = "projects-config"
    CONFIG_PROJECTS = "config-projects"


@dataclass(frozen=True, slots=True)
class ScanPolicy:
    """`spec.ignition.scan` with durations in seconds."""

    mode: ScanMode = ScanMode.REQUIRED
    order: ScanOrder = ScanOrder.PROJECTS_CONFIG
    request_timeout: float = 10.0
    completion_timeout: float = 60.0


def scan_policy(policy: SyncPolicy) -> ScanPolicy:
    """The scan rules of the policy that the controller publishes."""
    return ScanPolicy(
        mode=ScanMode(policy.scan_mode),
        order=ScanOrder(policy.scan_order),
        request_timeout=policy.scan_request_seconds,
        completion_timeout=policy.scan_completion_seconds,
    )


class ScanState(StrEnum):
    """How the scan of one kind ended."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    SKIPPED = "skipped"


_DONE_STATES = frozenset({ScanState.VERIFIED, ScanState.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class ScanKindResult:
    """The result of scanning one kind."""

    kind: ScanKind
    state: ScanState  # how it ended
    status: int = 0  # HTTP status of the POST; 0 without an answer
    reason: str = ""  # gateway reason of a failure; empty if done or skipped
    message: str = ""  # of the failure
    seconds: float = 0.0  # duration

    @property
    def is_done(self) -> bool:
        return self.state in _DONE_STATES

    @property
    def text(self) -> str:
        """Such as `projects=200`, `config=200(incomplete)` or `config: no response`."""
        if self.state is ScanState.SKIPPED:
            return f"{self.kind}=skipped"
        if not self.status:
            return f"{self.kind}: no response"
        shown = {ScanState.UNVERIFIED, ScanState.INCOMPLETE}
        suffix = f"({self.state})" if self.state in shown else ""
        return f"{self.kind}={self.status}{suffix}"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The combined result of all kinds; without a reason the gateway counts as scanned."""

    kinds: tuple[ScanKindResult, ...] = ()  # in scan order
    pending: frozenset[ScanKind] = frozenset()  # to be scanned again
    reason: str = ""  # gateway reason of the first failure, in mode Required
    message: str = ""  # of that failure
    warning: str = ""  # the first failure, in mode BestEffort
    text: str = ""  # summary for status and audit log

    @property
    def retry_seconds(self) -> float | None:
        """Seconds until the retry; None leaves it to the caller's backoff."""
        return (
            REFUSAL_RETRY_SECONDS
            if self.reason in {"ScanUnauthorized", "ScanUnsupported"}
            else None
        )


def required_scans(paths: Iterable[str]) -> frozenset[ScanKind]:
    """The kinds that changed data-relative paths require."""
    names = {path.partition("/")[0] for path in paths if "/" in path}
    return frozenset(kind for kind in ScanKind if kind in names)


def sort_scans(kinds: Iterable[ScanKind], order: ScanOrder) -> tuple[ScanKind, ...]:
    """`kinds` without duplicates, in the order of the policy."""
    first, _, second = order.partition("-")
    required = set(kinds)
    return tuple(kind for kind in (ScanKind(first), ScanKind(second)) if kind in required)


def continues_after(result: ScanKindResult, mode: ScanMode) -> bool:
    """Whether the next kind is scanned after this one."""
    return result.is_done or mode is ScanMode.BEST_EFFORT


def skipped_result(kind: ScanKind) -> ScanKindResult:
    """The result of a kind that is not scanned because an earlier one failed."""
    return ScanKindResult(kind, ScanState.SKIPPED)


def disabled_result() -> ScanResult:
    """The result in mode Off."""
    return ScanResult(text="off")


def combine_results(results: Sequence[ScanKindResult], mode: ScanMode) -> ScanResult:
    """The combined result by the table above."""
    text = " ".join(result.text for result in results)
    failed = next((result for result in results if result.reason), None)
    if failed is None:
        return ScanResult(tuple(results), text=text)
    message = _truncate(f"{failed.kind} scan: {failed.message}")
    if mode is ScanMode.BEST_EFFORT:
        warning = _truncate(f"{failed.reason}: {message}")
        return ScanResult(tuple(results), warning=warning, text=text)
    pending = frozenset(result.kind for result in results if not result.is_done)
    return ScanResult(tuple(results), pending, failed.reason, message, text=text)


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_LENGTH else text[: _MAX_MESSAGE_LENGTH - 1] + "…"
