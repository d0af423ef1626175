"""Errors of the API server, one class per decision.

Every foreign error is translated here: HTTP statuses with their Status bodies, and transport
errors, which have the status 0. Text from the wire is redacted and cut before it enters an error.
`after` and `retry_after` are the wait that the server demands, at most `RETRY_AFTER_CEILING`.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
import msgspec
from lightkube.core.exceptions import ConfigError

from windlass.base import redaction
from windlass.base.errors import Retryable

MESSAGE_LIMIT = 512
RETRY_AFTER_CEILING = 300.0


class ApiError(Retryable):
    """The API server refused or did not respond; `status` is its HTTP status or 0."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        fields: tuple[str, ...] = (),
    ) -> None:
        super().__init__(reason, message, after=retry_after)
        self.status = status
        self.fields = fields
        """The fields that were refused; unlike the message they contain no value."""

    @property
    def retry_after(self) -> float | None:
        return self.after


class NotFound(ApiError):
    """404: no such object, or no such type."""


class Conflict(ApiError):
    """409: another client wrote first, or a precondition does not hold."""


class AlreadyExists(ApiError):
    """409: the name is taken."""


class Unauthorized(ApiError):
    """401: the server does not accept our credentials."""


class Forbidden(ApiError):
    """403: our user lacks a permission."""


class Gone(ApiError):
    """410: the resourceVersion or continue token has expired."""


class Invalid(ApiError):
    """422: the object or an option is invalid."""


class Throttled(ApiError):
    """429: too many requests; `retry_after` is the wait that the server demands."""


class Unavailable(ApiError):
    """5xx, or no response at all."""


class Idle(Unavailable):
    """An open stream was silent for longer than it may be."""


class LeaseNotHeld(Retryable):
    """A write that was not sent, because this process does not hold the lease now."""

    def __init__(self) -> None:
        super().__init__("NotLeading", "write refused: this process does not hold the lease")


class _Cause(msgspec.Struct):
    field: str = ""


class _Details(msgspec.Struct):
    retryAfterSeconds: float = 0  # noqa: N815 - the name on the wire
    causes: list[_Cause] = []


class Status(msgspec.Struct):
    """The part of a Status object that decides what happens next."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}
_status_decoder = msgspec.json.Decoder(Status)


def clean(text: str) -> str:
    """Foreign text, redacted and cut, for use in an error."""
    return redaction.process.clean(text, limit=MESSAGE_LIMIT)


def parse_status(body: bytes) -> Status | None:
    """The Status in a body, or None where it is something else (a load balancer's page)."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return status if status.code or status.message or status.reason else None


def from_status(status: Status, *, retry_after: float | None = None) -> ApiError:
    """The error of a Status object in a response body or in an ERROR event."""
    if retry_after is None and status.details is not None and status.details.retryAfterSeconds:
        retry_after = bounded_wait(status.details.retryAfterSeconds)
    kind = _class_of(status.code, status.reason)
    message = clean(status.message or f"the API server responded with status {status.code}")
    reason = clean(status.reason)[:64] or kind.__name__
    return kind(status.code, reason, message, retry_after=retry_after, fields=_fields(status))


def from_response(code: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The error of an HTTP response that is not a success."""
    status = parse_status(body) or Status(message=body[:MESSAGE_LIMIT].decode("utf-8", "replace"))
    status.code = code
    return from_status(status, retry_after=parse_retry_after(headers.get("retry-after", "")))


def from_transport(
    error: httpx2.HTTPError | httpx2.InvalidURL | OSError | ConfigError,
) -> ApiError:
    """The error of a request without a complete response."""
    text = clean(str(error)) or type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        return Unavailable(0, "Timeout", f"the API server did not respond in time ({text})")
    if isinstance(error, ConfigError):
        return Unavailable(0, "CredentialUnreadable", text)
    return Unavailable(0, "Unreachable", f"no complete response from the API server: {text}")


def parse_retry_after(text: str) -> float | None:
    """Seconds of a Retry-After header; the API server never sends the date form."""
    try:
        return bounded_wait(float(text))
    except ValueError:
        return None


def bounded_wait(seconds: float) -> float:
    """A wait that the server demands, bounded; NaN and negative ones are 0."""
    return min(seconds, RETRY_AFTER_CEILING) if seconds > 0 else 0.0


def _fields(status: Status) -> tuple[str, ...]:
    causes = status.details.causes if status.details is not None else []
    return tuple(dict.fromkeys(clean(cause.field) for cause in causes if cause.field))


def _class_of(code: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if code >= 500:
        return Unavailable
    return _BY_STATUS.get(code, ApiError)
