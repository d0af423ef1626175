"""Translation of error responses of the API server."""

from __future__ import annotations

import json

import httpx2
import pytest

from windlass.base import redaction
from windlass.base.errors import Retryable
from windlass.kube import errors


def _body(code: int, reason: str, message: str) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": message}
    ).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.Unavailable),
        (504, "Timeout", errors.Unavailable),
        (400, "BadRequest", errors.ApiError),
    ],
)
def test_class_of_status(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    """Each status has its class and keeps the server's reason and message."""
    error = errors.from_response(code, _body(code, reason, "no"), {})
    assert type(error) is kind
    assert isinstance(error, Retryable)
    assert (error.status, error.reason, error.message) == (code, reason, "no")


def test_body_that_is_no_status() -> None:
    """A load balancer's page becomes a message, cut and with the HTTP status."""
    error = errors.from_response(502, b"<html>" + b"x" * 5000, {})
    assert isinstance(error, errors.Unavailable)
    assert error.reason == "Unavailable"
    assert len(error.message) <= errors.MESSAGE_LIMIT


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"null", b"[" * 5000, b'{"code":"x"}'])
def test_poisonous_body(body: bytes) -> None:
    """Any body becomes an error."""
    assert errors.from_response(500, body, {}).status == 500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("nan", 0.0),
        ("1e9", errors.RETRY_AFTER_CEILING),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("", None),
    ],
)
def test_retry_after(text: str, expected: float | None) -> None:
    """Retry-After is honored within bounds, and ignored where it is invalid."""
    error = errors.from_response(429, b"", {"retry-after": text})
    assert error.retry_after == expected


def test_retry_after_of_details() -> None:
    """A delay that is only in the Status is honored too."""
    status = errors.parse_status(b'{"code":429,"details":{"retryAfterSeconds":4}}')
    assert status is not None
    assert errors.from_status(status).retry_after == 4


def test_text_is_redacted() -> None:
    """A credential in a message does not reach the error."""
    redaction.process.add("hunter2-very-secret")
    try:
        error = errors.from_response(400, _body(400, "x", "token hunter2-very-secret bad"), {})
    finally:
        redaction.process.discard("hunter2-very-secret")
    assert "hunter2" not in str(error)
    assert "hunter2" not in repr(error)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (httpx2.ConnectError("refused"), "Unreachable"),
        (httpx2.ReadTimeout(""), "Timeout"),
        (OSError("broken"), "Unreachable"),
    ],
)
def test_transport(cause: httpx2.HTTPError | OSError, reason: str) -> None:
    """No response is Unavailable with the status 0."""
    error = errors.from_transport(cause)
    assert isinstance(error, errors.Unavailable)
    assert (error.status, error.reason) == (0, reason)
