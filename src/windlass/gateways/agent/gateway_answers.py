"""Interprets the gateway's HTTP answers: to scan requests, and from its open status pages.

Called by `scanner`. Rules of the POST:

| Answer | Result | Reason |
|---|---|---|
| 2xx | accepted | |
| no connection, or it broke | again | GatewayUnreachable |
| no answer in time, 5xx | again | ScanFailed |
| certificate not of the given authority | failed | GatewayUnreachable |
| 401, 403 | failed | ScanUnauthorized |
| 404 | failed | ScanUnsupported |
| anything else | failed | ScanFailed |

"Again" is safe although the first request may have arrived: scans are idempotent. After the last
retry its reason is final. Rules of the GET that follows: it is repeated while the gateway does not
answer, answers 5xx or reports a running scan; a scan is verified once the gateway is idle with a
newer timestamp than before the POST; an answer that cannot be parsed counts as done, but
unverified.

`/system/gwinfo` is a line of `name=value` pairs; while the gateway starts it answers 503. A gateway
that waits for commissioning may call itself RUNNING there, so `/StatusPing` is checked too: a
gateway counts as up only when neither mentions it.

| gwinfo | StatusPing | State |
|---|---|---|
| no connection, or it broke | | Down |
| no answer in time | | Unresponsive |
| not 200, or another ContextStatus | | Starting |
| ContextStatus names commissioning | | Commissioning |
| RUNNING | names commissioning | Commissioning |
| RUNNING | anything else | Running |

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import msgspec

NEVER_SCANNED = 0


class RequestFault(StrEnum):
    """Why a request got no answer."""

    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """The answer to a request; `detail` is redacted text about a fault, or a redirect's target."""

    status: int = 0
    body: bytes = b""
    fault: RequestFault | None = None
    detail: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_inconclusive(self) -> bool:
        """Whether the answer proves nothing, so that the request has to be repeated."""
        return self.fault is not None or self.status >= 500


class PostResult(Enum):
    """How a POST ended."""

    ACCEPTED = "accepted"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PostVerdict:
    """The result of a POST, with reason and message unless it was accepted."""

    result: PostResult
    reason: str = ""
    message: str = ""


class ScanCompletion(Enum):
    """Progress of an accepted scan."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class ScanStatus:
    """The members of a scan status; None for what could not be read."""

    active: bool | None = None
    timestamp: int | None = None


_UNAUTHORIZED = (
    "the gateway does not accept the API token (401): the name or secret in "
    "spec.gateway.apiKeySecretRef is wrong, or the gateway has no api-token resource with that "
    "name"
)
_MAYBE_NEEDS_TLS = "; or the token demands a secure channel while spec.gateway.tls is false"
_FORBIDDEN = (
    "the API token lacks write permission (403): grant its security level write access in "
    "the gateway's security properties; commissioning resets these permissions"
)
_UNSUPPORTED = (
    "the gateway has no scan API (404): it requires Ignition 8.3 or later; for earlier "
    "versions set spec.ignition.scan.mode to Off, or to BestEffort to continue without a scan"
)
_UNTRUSTED = (
    "the gateway's certificate is not signed by the CA in spec.gateway.caSecretRef; correct that "
    "Secret, or remove the reference: the connection never leaves the pod"
)


def judge_post(answer: GatewayAnswer, *, tls: bool) -> PostVerdict:
    """The verdict on the answer to a POST, by the table above."""
    if answer.is_success:
        return PostVerdict(PostResult.ACCEPTED)
    if answer.fault is not None:
        return _judge_fault(answer)
    if answer.status in {401, 403}:
        return PostVerdict(
            PostResult.FAILED, "ScanUnauthorized", _unauthorized_message(answer.status, tls=tls)
        )
    if answer.status == 404:
        return PostVerdict(PostResult.FAILED, "ScanUnsupported", _UNSUPPORTED)
    if answer.status >= 500:
        return PostVerdict(PostResult.AGAIN, "ScanFailed", f"the gateway answered {answer.status}")
    return PostVerdict(PostResult.FAILED, "ScanFailed", _unexpected_message(answer))


def _judge_fault(answer: GatewayAnswer) -> PostVerdict:
    if answer.fault is RequestFault.UNTRUSTED:
        return PostVerdict(PostResult.FAILED, "GatewayUnreachable", _UNTRUSTED)
    if answer.fault is RequestFault.TIMEOUT:
        return PostVerdict(
            PostResult.AGAIN, "ScanFailed", "no response within spec.ignition.scan.requestTimeout"
        )
    message = f"the gateway is not reachable: {answer.detail or 'connection failed'}"
    return PostVerdict(PostResult.AGAIN, "GatewayUnreachable", message)


def _unauthorized_message(status: int, *, tls: bool) -> str:
    if status == 403:
        return _FORBIDDEN
    return _UNAUTHORIZED if tls else _UNAUTHORIZED + _MAYBE_NEEDS_TLS


def _unexpected_message(answer: GatewayAnswer) -> str:
    if 300 <= answer.status < 400:
        target = f" to {answer.detail}" if answer.detail else ""
        return (
            f"the gateway redirects{target} ({answer.status}), and the token is never sent "
            "to a redirect target; set spec.gateway.port and spec.gateway.tls to where it leads"
        )
    return f"the gateway rejected the scan ({answer.status})"


def parse_scan_status(body: bytes) -> ScanStatus:
    """The readable members of a scan status; some versions call `scanActive` `scanning`."""
    try:
        status: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ScanStatus()
    if not isinstance(status, dict):
        return ScanStatus()
    flags = (status.get(name) for name in ("scanActive", "scanning"))
    active = next((flag for flag in flags if isinstance(flag, bool)), None)
    stamp = status.get("lastScanTimestamp")
    is_timestamp = isinstance(stamp, int) and not isinstance(stamp, bool)
    return ScanStatus(active, stamp if is_timestamp else None)


def is_scanning(answer: GatewayAnswer) -> bool:
    """Whether the gateway reports a running scan."""
    return answer.is_success and parse_scan_status(answer.body).active is True


def scan_baseline(answer: GatewayAnswer) -> int | None:
    """The timestamp that our scan has to exceed; None if the gateway reports none."""
    if not answer.is_success:
        return None
    status = parse_scan_status(answer.body)
    if status.timestamp is None and status.active is not None:
        return NEVER_SCANNED
    return status.timestamp


def scan_completion(baseline: int | None, answer: GatewayAnswer) -> ScanCompletion:
    """Progress of a scan by a GET after the POST, compared with the baseline."""
    if answer.is_inconclusive:
        return ScanCompletion.RUNNING
    status = parse_scan_status(answer.body) if answer.is_success else ScanStatus()
    if status.active:
        return ScanCompletion.RUNNING
    if status.active is None or status.timestamp is None or baseline is None:
        return ScanCompletion.UNVERIFIED
    return ScanCompletion.VERIFIED if status.timestamp > baseline else ScanCompletion.RUNNING


def incomplete_message(last: GatewayAnswer, seconds: float) -> str:
    """The message for an accepted scan whose completion was not observed in time."""
    if last.is_inconclusive:
        what = f"answered {last.status}" if last.status else "stopped responding"
        return f"accepted, but then the gateway {what}; waited {seconds:g} s"
    return (
        f"accepted, but not complete after {seconds:g} s; if the gateway is large, increase "
        "spec.ignition.scan.completionTimeout"
    )


def other_port_hint(port: int, *, tls: bool) -> str:
    """The hint for a gateway that answers on another port than the configured one."""
    with_tls, value = ("with", "true") if tls else ("without", "false")
    return (
        f"; port {port} answers {with_tls} TLS: set spec.gateway.port to {port} and "
        f"spec.gateway.tls to {value}"
    )


class GatewayState(StrEnum):
    """The state of the gateway in the agent's pod."""

    DOWN = "Down"
    # It may run already, or the agent itself was held up: neither up nor down is certain.
    UNRESPONSIVE = "Unresponsive"
    STARTING = "Starting"
    COMMISSIONING = "Commissioning"
    RUNNING = "Running"


def parse_gwinfo(gwinfo: bytes) -> dict[str, str]:
    """The `name=value` pairs of a gwinfo line; other parts are ignored."""
    parts = gwinfo.decode("utf-8", "replace").strip().split(";")
    pairs = (part.partition("=") for part in parts)
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}


def gateway_state(gwinfo: GatewayAnswer, ping: GatewayAnswer | None = None) -> GatewayState:
    """The state by both pages; without `ping` by the first one alone."""
    if gwinfo.fault is RequestFault.TIMEOUT:
        return GatewayState.UNRESPONSIVE
    if gwinfo.fault is not None:
        return GatewayState.DOWN
    context = parse_gwinfo(gwinfo.body).get("ContextStatus", "") if gwinfo.is_success else ""
    if _mentions_commissioning(context):
        return GatewayState.COMMISSIONING
    if context != "RUNNING":
        return GatewayState.STARTING
    if ping is not None and _mentions_commissioning(ping.body.decode("utf-8", "replace")):
        return GatewayState.COMMISSIONING
    return GatewayState.RUNNING


def _mentions_commissioning(text: str) -> bool:
    return "COMMISSIONING" in text.upper()
