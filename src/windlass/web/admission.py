"""Admission webhook endpoint: reads AdmissionReview v1 and always allows.

Only the fields that tell who did what are decoded; the objects stay bytes. The endpoint passes the
request on to a queue and responds; what reads the queue runs later, so it never delays the writer.
A body that cannot be read is still allowed where its uid can be found, because a mirror must never
block a write.

The path has a part that only readers of the webhook configuration know. A call of another path gets
404; a failing call of the right one is reported, because it may have been the API server's.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import WindlassError
from windlass.objects.names import GVR
from windlass.web.server import VOUCH

_API_VERSION = "admission.k8s.io/v1"
# The API server writes the uid first; anywhere else a uid may be an object's.
_UID = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([0-9A-Za-z-]{1,64})"')
_UID_WITHIN = 4096
_NOTHING = msgspec.Raw(b"null")

_log = structlog.get_logger(__name__)

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One attempted write; it may still fail, so this is a claim, not a fact."""

    uid: str  # of the request, not of the object
    operation: Operation  # as the API server names it
    gvr: GVR  # the type that the webhook was matched for
    subresource: str  # empty: the object itself
    namespace: str  # empty for cluster-scoped objects
    name: str  # empty while the server has not generated one
    user: str  # user name of the client, after impersonation
    groups: tuple[str, ...]  # of the user
    extra: dict[str, tuple[str, ...]]  # further attributes of the user
    dry_run: bool  # whether nothing is stored
    object: bytes = field(repr=False)  # JSON; empty on deletes
    old_object: bytes = field(repr=False)  # JSON; empty on creates


class ReviewUnreadable(WindlassError):
    """A body that is not an AdmissionReview v1; `uid` is set where it could still be found."""

    def __init__(self, message: str, uid: str) -> None:
        super().__init__("ReviewUnreadable", message)
        self.uid = uid


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _User(msgspec.Struct):
    username: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _Request(msgspec.Struct, rename="camel"):
    """`request` of an AdmissionReview: uid, operation, resource, sub_resource, namespace,
    name, user_info, dry_run, object and old_object, as the API defines them.
    """

    uid: str
    operation: Operation
    resource: _Resource
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    dry_run: bool | None = None
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_decoder = msgspec.json.Decoder(_Review)


def parse(body: bytes) -> AdmissionRequest:
    """The request in an AdmissionReview, or ReviewUnreadable."""
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ReviewUnreadable("the body is not an AdmissionReview v1", find_uid(body)) from error
    if (review.api_version, review.kind) != (_API_VERSION, "AdmissionReview"):
        raise ReviewUnreadable("only AdmissionReview v1 is supported", review.request.uid)
    return _request(review.request)


def allow(uid: str) -> bytes:
    """The response that allows the write with this uid."""
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%b,'
        b'"allowed":true}}' % msgspec.json.encode(uid)
    )


def find_uid(body: bytes) -> str:
    """The request's uid in a body that cannot be decoded, or the empty string."""
    match = _UID.search(body, 0, _UID_WITHIN)
    return match.group(1).decode("ascii") if match else ""


def _request(raw: _Request) -> AdmissionRequest:
    return AdmissionRequest(
        uid=raw.uid,
        operation=raw.operation,
        gvr=_gvr(raw.resource),
        subresource=raw.sub_resource,
        namespace=raw.namespace,
        name=raw.name,
        user=raw.user_info.username,
        groups=raw.user_info.groups or (),
        extra=raw.user_info.extra or {},
        dry_run=bool(raw.dry_run),
        object=_present(raw.object),
        old_object=_present(raw.old_object),
    )


def _gvr(raw: _Resource) -> GVR:
    return GVR(raw.group, raw.version, raw.resource)


def _present(raw: msgspec.Raw) -> bytes:
    content = bytes(raw)
    return b"" if content == b"null" else content


class AdmissionEndpoint:
    """ASGI application of the webhook: pass the request on, and respond.

    `on_request` gets each request that could be read, before its response is sent: whoever sees
    the write knows that it was passed on. So it must only enqueue the request. `timed` gets the
    seconds between the arrival
    of the body and the response, `lost` is called for calls that could not be read. Serve it with
    itself as the gate: then other paths cost nothing.
    """

    def __init__(
        self,
        on_request: Callable[[AdmissionRequest], None],
        *,
        paths: Sequence[str],
        lost: Callable[[], None] = lambda: None,
        timed: Callable[[float], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._on_request = on_request
        self._lost = lost
        self.accept(paths)
        self._timed = timed
        self._clock = clock or SystemClock()
        # When the body of each call began to arrive that was neither passed on nor lost yet; by
        # the identity of its scope, ascending.
        self._open_calls: dict[int, float] = {}

    def accept(self, paths: Sequence[str]) -> None:
        """Answer calls on exactly these paths from now on."""
        self._paths = tuple(path.encode() for path in paths)

    def admits(self, scope: Scope) -> bool:
        path = scope["path"].encode()
        return any(hmac.compare_digest(path, known) for known in self._paths)

    def opened(self, scope: Scope) -> None:
        self._open_calls[id(scope)] = self._clock.monotonic()

    def failed(self, scope: Scope) -> None:
        self._close(scope)
        self._lost()

    def _close(self, scope: Scope) -> None:
        self._open_calls.pop(id(scope), None)

    @property
    def oldest_open_call(self) -> float | None:
        """The monotonic time since which a call is being read; None without any.

        The API server may have given it up, and stored the write that it is about.
        """
        return next(iter(self._open_calls.values()), None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.admits(scope):
            await _answer(send, 404, b"not found\n", b"text/plain")
        elif scope["method"] != "POST":
            self._close(scope)
            await _answer(send, 405, b"method not allowed; use POST\n", b"text/plain")
        else:
            await self._review(await _body(receive), send, scope)

    async def _review(self, body: bytes, send: Send, scope: Scope) -> None:
        began = self._clock.monotonic()
        try:
            request = parse(body)
        except ReviewUnreadable as error:
            self.failed(scope)
            await self._allow_unread(error, send)
            return
        _mark_trusted(scope)
        self._forward(request)
        self._close(scope)
        await _answer(send, 200, allow(request.uid))
        if self._timed is not None:
            self._timed(self._clock.monotonic() - began)

    async def _allow_unread(self, error: ReviewUnreadable, send: Send) -> None:
        _log.warning("invalid admission request", reason=error.reason, message=error.message)
        if error.uid:
            await _answer(send, 200, allow(error.uid))
        else:
            await _answer(send, 400, f"{error.message}\n".encode(), b"text/plain")

    def _forward(self, request: AdmissionRequest) -> None:
        try:
            self._on_request(request)
        except Exception:
            # The write is allowed all the same: a mirror must never block it.
            _log.exception("admission record lost", uid=request.uid)
            self._lost()


def _mark_trusted(scope: Scope) -> None:
    vouch = (scope.get("state") or {}).get(VOUCH)
    if vouch is not None:
        vouch()


async def _body(receive: Receive) -> bytes:
    chunks = []
    more = True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _answer(
    send: Send, status: int, body: bytes, content_type: bytes = b"application/json"
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
