"""Decides what a gateway's answer to a scan request means.

Rules of the POST:

| Answer | Step | Reason |
|---|---|---|
| 2xx | accepted | |
| no connection, or it broke | again | GatewayUnreachable |
| no answer in time, 5xx | again | ScanFailed |
| certificate not of the given authority | failed | GatewayUnreachable |
| 401, 403 | failed | ScanUnauthorized |
| 404 | failed | ScanUnsupported |
| anything else | failed | ScanFailed |

"Again" is safe although the first request may have arrived: scans are idempotent. When
no try is left, its reason stands. Rules of the GET that follows: a gateway that does
not answer, answers 5xx or says that it scans is asked again; a scan is verified once
the gateway is idle with a newer timestamp than before the POST; what cannot be judged
counts as done, but unverified.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import msgspec

NEVER_SCANNED = 0


class Fault(StrEnum):
    """Why there is no answer."""

    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `detail` is clean text about a fault, or where a redirect leads."""

    status: int = 0
    body: bytes = b""
    fault: Fault | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def silent(self) -> bool:
        """Whether the gateway said nothing that could be judged, and may do so later."""
        return self.fault is not None or self.status >= 500


class Step(Enum):
    """What follows a POST."""

    ACCEPTED = "accepted"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows, and why where the scan was not accepted."""

    step: Step
    reason: str = ""
    message: str = ""


class Completion(Enum):
    """What a GET says about an accepted scan."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Progress:
    """The members of a scan status that could be read."""

    active: bool | None = None
    timestamp: int | None = None


_UNKNOWN = (
    "the gateway does not know the API token (401): its name or secret in gateway.apiKeySecretRef "
    "is wrong, or the gateway has no api-token resource of that name"
)
_PLAIN_CHANNEL = "; or the token demands a secure channel while gateway.tls is false"
_FORBIDDEN = (
    "the API token lacks write permission (403): grant its security level write access in the "
    "gateway's security properties; usual right after commissioning reset the permissions"
)
_UNSUPPORTED = (
    "the gateway has no scan API (404): Ignition 8.3 or newer has it; for older ones set "
    "ignition.scan.mode to Off, or to BestEffort to go on without a scan"
)
_UNTRUSTED = (
    "the gateway's certificate was not issued by the authority in gateway.caSecretRef; correct "
    "that Secret, or remove the reference: the connection never leaves the pod"
)


def judged(answer: Answer, *, tls: bool) -> Verdict:
    """What follows the answer to a POST."""
    if answer.ok:
        return Verdict(Step.ACCEPTED)
    if answer.fault is not None:
        return _without_answer(answer)
    if answer.status in {401, 403}:
        return Verdict(Step.FAILED, "ScanUnauthorized", _refusal(answer.status, tls=tls))
    if answer.status == 404:
        return Verdict(Step.FAILED, "ScanUnsupported", _UNSUPPORTED)
    if answer.status >= 500:
        return Verdict(Step.AGAIN, "ScanFailed", f"the gateway answered {answer.status}")
    return Verdict(Step.FAILED, "ScanFailed", _odd(answer))


def _without_answer(answer: Answer) -> Verdict:
    if answer.fault is Fault.UNTRUSTED:
        return Verdict(Step.FAILED, "GatewayUnreachable", _UNTRUSTED)
    if answer.fault is Fault.TIMEOUT:
        return Verdict(Step.AGAIN, "ScanFailed", "no answer within ignition.scan.requestTimeout")
    message = f"the gateway does not answer: {answer.detail or 'the connection failed'}"
    return Verdict(Step.AGAIN, "GatewayUnreachable", message)


def _refusal(status: int, *, tls: bool) -> str:
    if status == 403:
        return _FORBIDDEN
    return _UNKNOWN if tls else _UNKNOWN + _PLAIN_CHANNEL


def _odd(answer: Answer) -> str:
    if 300 <= answer.status < 400:
        target = f" to {answer.detail}" if answer.detail else ""
        return (
            f"the gateway redirects{target} ({answer.status}), and a token is never sent after "
            "a redirect; set gateway.port and gateway.tls to where it leads"
        )
    return f"the gateway refused the scan ({answer.status})"


def progress(body: bytes) -> Progress:
    """The readable members of a scan status; `scanning` is what some versions say."""
    try:
        status: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return Progress()
    if not isinstance(status, dict):
        return Progress()
    flags = (status.get(name) for name in ("scanActive", "scanning"))
    active = next((flag for flag in flags if isinstance(flag, bool)), None)
    stamp = status.get("lastScanTimestamp")
    known = isinstance(stamp, int) and not isinstance(stamp, bool)
    return Progress(active, stamp if known else None)


def is_scanning(answer: Answer) -> bool:
    """Whether the gateway says that a scan runs now."""
    return answer.ok and progress(answer.body).active is True


def baseline(answer: Answer) -> int | None:
    """The timestamp to be exceeded; None where the gateway does not tell."""
    if not answer.ok:
        return None
    seen = progress(answer.body)
    if seen.timestamp is None and seen.active is not None:
        return NEVER_SCANNED
    return seen.timestamp


def completion(before: int | None, answer: Answer) -> Completion:
    """What a GET after the POST says, given the baseline."""
    if answer.silent:
        return Completion.RUNNING
    seen = progress(answer.body) if answer.ok else Progress()
    if seen.active:
        return Completion.RUNNING
    if seen.active is None or seen.timestamp is None or before is None:
        return Completion.UNVERIFIED
    return Completion.VERIFIED if seen.timestamp > before else Completion.RUNNING


def incomplete(last: Answer, seconds: float) -> str:
    """Why an accepted scan is not known to be done."""
    if last.silent:
        what = f"answered {last.status}" if last.status else "did not answer any more"
        return f"accepted, but then the gateway {what}; waited {seconds:g} s"
    return (
        f"accepted, but not complete after {seconds:g} s; a large gateway may need a longer "
        "ignition.scan.completionTimeout"
    )


def elsewhere(port: int, *, tls: bool) -> str:
    """The fix for a gateway that answers on another port than the configured one."""
    return f"; port {port} answers {'with' if tls else 'without'} TLS: set gateway.port to " + (
        f"{port} and gateway.tls to {'true' if tls else 'false'}"
    )
