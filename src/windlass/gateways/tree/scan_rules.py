"""Decides which scans a gateway needs, in which order, and what their results mean together.

A scan makes a running gateway read its files again. A kind that was required but is not known to
be done stays pending, so that the next attempt scans without copying files.

| Mode | Called | A scan fails | Counts as synced |
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

REFUSAL_RETRY_SECONDS = 300.0
"""How long a refusal that only a person can end is left alone."""

_MAX_MESSAGE_LENGTH = 512


class ScanKind(StrEnum):
    """What a gateway can be asked to read again."""

    PROJECTS = "projects"
    CONFIG = "config"


class ScanMode(StrEnum):
    """How much a sync depends on its scans."""

    REQUIRED = "Required"
    BEST_EFFORT = "BestEffort"
    OFF = "Off"


class ScanOrder(StrEnum):
    """Which kind goes first."""

    PROJECTS_CONFIG = "projects-config"
    CONFIG_PROJECTS = "config-projects"


@dataclass(frozen=True, slots=True)
class ScanPolicy:
    """`spec.ignition.scan` with durations in seconds."""

    mode: ScanMode = ScanMode.REQUIRED
    order: ScanOrder = ScanOrder.PROJECTS_CONFIG
    request_timeout: float = 10.0
    completion_timeout: float = 60.0


class ScanState(StrEnum):
    """How far the scan of one kind came."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    SKIPPED = "skipped"


_DONE_STATES = frozenset({ScanState.VERIFIED, ScanState.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class ScanKindResult:
    """What became of one kind; `status` is the answer to the POST, 0 where none came."""

    kind: ScanKind
    state: ScanState
    status: int = 0
    reason: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.state in _DONE_STATES

    @property
    def text(self) -> str:
        """Such as `projects=200`, `config=200(incomplete)`, `config=skipped`."""
        told = {ScanState.UNVERIFIED, ScanState.INCOMPLETE}
        mark = f"({self.state})" if self.state in told else ""
        return f"{self.kind}={self.status or self._without_status()}{mark}"

    def _without_status(self) -> str:
        return "skipped" if self.state is ScanState.SKIPPED else "unanswered"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What became of all kinds; without a reason the gateway counts as scanned."""

    kinds: tuple[ScanKindResult, ...] = ()
    pending: frozenset[ScanKind] = frozenset()
    reason: str = ""
    message: str = ""
    warning: str = ""
    text: str = ""

    @property
    def retry_seconds(self) -> float | None:
        """When to try again; None leaves it to the caller's own backoff."""
        return (
            REFUSAL_RETRY_SECONDS
            if self.reason in {"ScanUnauthorized", "ScanUnsupported"}
            else None
        )


def required_scans(paths: Iterable[str], pending: Iterable[str] = ()) -> frozenset[ScanKind]:
    """The kinds that changed data-relative paths touch, and those still owed."""
    names = {path.partition("/")[0] for path in paths if "/" in path} | set(pending)
    return frozenset(kind for kind in ScanKind if kind in names)


def sort_scans(kinds: Iterable[ScanKind], order: ScanOrder) -> tuple[ScanKind, ...]:
    """`kinds` once each, in the order the policy asks for."""
    first, _, second = order.partition("-")
    chosen = set(kinds)
    return tuple(kind for kind in (ScanKind(first), ScanKind(second)) if kind in chosen)


def continues_after(result: ScanKindResult, mode: ScanMode) -> bool:
    """Whether the next kind is scanned after this one."""
    return result.is_done or mode is ScanMode.BEST_EFFORT


def skipped_result(kind: ScanKind) -> ScanKindResult:
    """The result of a kind that an earlier failure kept from being scanned."""
    return ScanKindResult(kind, ScanState.SKIPPED)


def disabled_result() -> ScanResult:
    """The result where no scan may be asked for."""
    return ScanResult(text="off")


def combine_results(results: Sequence[ScanKindResult], mode: ScanMode) -> ScanResult:
    """What the results of all wanted kinds mean for the sync."""
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
