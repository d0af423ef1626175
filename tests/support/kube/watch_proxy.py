"""A proxy between our client and an API server that misbehaves on demand.

It terminates HTTP (or HTTPS with a CA of its own) and speaks to the server as the user
of the kubeconfig it was given. Every connection carries one request. Watches are relayed
event by event, everything else byte by byte. A fault applies to the requests it matches,
`times` times or until it is removed; the newest matching fault wins.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

import trustme
import yaml
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import KubeConfig

from windlass.kube.watch import INITIAL_EVENTS_END

_BIG = 2**26


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """One request that came to the proxy."""

    method: str
    path: str
    query: dict[str, str]

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def is_watchlist(self) -> bool:
        return "sendInitialEvents" in self.query

    @property
    def is_resume(self) -> bool:
        return self.is_watch and not self.is_watchlist

    @property
    def is_list(self) -> bool:
        return "limit" in self.query

    @property
    def is_next_page(self) -> bool:
        return "continue" in self.query


Matcher = Callable[[ProxiedRequest], bool]


@dataclass(frozen=True, slots=True)
class ProxyResponse:
    """A response of the proxy instead of the server."""

    status: int
    message: str = "by order of the test"
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        return json.dumps(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "message": self.message,
                "reason": self.reason,
                "code": self.status,
            }
        ).encode()


@dataclass(frozen=True, slots=True)
class ConnectionDrop:
    """The connection ends: before a response, or after so many bytes of a body."""

    after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StreamFault:
    """What happens to a watch: lines are changed on the way, and it ends early.

    `cut` ends in the middle of a line without the framing's goodbye, `freeze` keeps the
    connection open without another byte, `close` ends cleanly, `error` sends an ERROR
    event with `answer` as its Status and closes. `after_snapshot` ends it once the initial
    events are complete, however long the server takes for them.
    """

    after_lines: int | None = None
    after_snapshot: bool = False
    after_seconds: float | None = None
    then: Literal["cut", "freeze", "close", "error"] = "close"
    answer: ProxyResponse | None = None
    change: Callable[[bytes], bytes | None] | None = None


@dataclass(slots=True)
class _Fault:
    matches: Matcher
    action: ProxyResponse | ConnectionDrop | StreamFault
    times: int | None


class WatchProxy:
    """The proxy, listening on loopback inside the running event loop."""

    def __init__(self, kubeconfig: Path, *, tls: bool = False) -> None:
        config = KubeConfig.from_file(kubeconfig).get()
        assert config is not None
        assert config.user is not None
        self._upstream = urlsplit(config.cluster.server)
        self._upstream_tls = verify_cluster(config.cluster, config.user, config.abs_file)
        self._bearer = config.user.token
        self._authority = trustme.CA() if tls else None
        self._faults: list[_Fault] = []
        self._accepts_plain_only = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: WeakKeyDictionary[asyncio.Task[Any], ProxiedRequest] = WeakKeyDictionary()
        self.seen: list[ProxiedRequest] = []

    # What a test says.

    def fault(
        self,
        action: ProxyResponse | ConnectionDrop | StreamFault,
        *,
        when: Matcher,
        times: int | None = 1,
    ) -> None:
        self._faults.append(_Fault(when, action, times))

    def hide_watchlist(self) -> None:
        """Behave like a server without the WatchList feature."""
        refusal = ProxyResponse(
            422,
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            "Invalid",
        )
        self.fault(refusal, when=lambda seen: seen.is_watchlist, times=None)

    def hide_aggregated_discovery(self) -> None:
        """Behave like a server that knows only per-group discovery documents."""
        self._accepts_plain_only = True

    def heal(self) -> None:
        self._faults.clear()
        self._accepts_plain_only = False

    def close_streams(self, when: Matcher = lambda _: True) -> None:
        """Cut every connection that is open now for such a request."""
        for task in self._tasks:
            if (seen := self._requests.get(task)) is not None and when(seen):
                task.cancel()

    async def quiet(self) -> None:
        """Wait until no connection is open."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def open_connections(self) -> int:
        return len(self._tasks)

    @property
    def server(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{'https' if self._authority else 'http'}://127.0.0.1:{port}"

    def write_kubeconfig(self, path: Path) -> Path:
        """A kubeconfig that goes through the proxy."""
        cluster: dict[str, object] = {"server": self.server}
        if self._authority is not None:
            authority = path.with_suffix(".ca.crt")
            authority.write_bytes(self._authority.cert_pem.bytes())
            cluster["certificate-authority"] = str(authority)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "proxy", "user": {}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    async def __aenter__(self) -> Self:
        context = None
        if self._authority is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._authority.issue_cert("127.0.0.1").configure_cert(context)
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, ssl=context, limit=_BIG
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    # What it does.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # Either side may leave whenever it likes.
        except asyncio.CancelledError:
            pass  # The proxy stops; the server's callback must not see it.
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen, headers, body = _parse_request(head), _headers(head), b""
        self.seen.append(seen)
        if (task := asyncio.current_task()) is not None:
            self._requests[task] = seen
        if length := int(headers.get("content-length", "0")):
            body = await reader.readexactly(length)
        action = self._action(seen)
        if isinstance(action, ProxyResponse):
            await _send_answer(writer, action)
        elif isinstance(action, ConnectionDrop) and action.after_bytes is None:
            return
        else:
            await self._relay(head, body, seen, action, reader, writer)

    def _action(self, seen: ProxiedRequest) -> ProxyResponse | ConnectionDrop | StreamFault | None:
        for fault in reversed(self._faults):
            if fault.matches(seen) and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                return fault.action
        return None

    async def _relay(
        self,
        head: bytes,
        body: bytes,
        seen: ProxiedRequest,
        action: ConnectionDrop | StreamFault | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(
            self._upstream.hostname, self._upstream.port, ssl=self._upstream_tls, limit=_BIG
        )
        try:
            upstream_writer.write(self._rewritten(head) + body)
            answer = await upstream_reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if seen.is_watch and answer.split(b" ", 2)[1] == b"200":
                fault = action if isinstance(action, StreamFault) else StreamFault()
                await _relay_watch(upstream_reader, reader, writer, fault)
            else:
                await _relay_bytes(upstream_reader, writer, action)
        finally:
            upstream_writer.transport.abort()

    def _rewritten(self, head: bytes) -> bytes:
        first, *lines = head[:-4].split(b"\r\n")
        dropped = (b"connection:", b"authorization:", b"host:", b"accept-encoding:")
        kept = [line for line in lines if not line.lower().startswith(dropped)]
        if self._accepts_plain_only:
            kept = [line for line in kept if not line.lower().startswith(b"accept:")]
        added = [b"Connection: close", f"Host: {self._upstream.netloc}".encode()]
        if self._bearer:
            added.append(f"Authorization: Bearer {self._bearer}".encode())
        return b"\r\n".join([first, *kept, *added, b"", b""])


async def _relay_bytes(
    upstream: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    action: ConnectionDrop | StreamFault | None,
) -> None:
    left = action.after_bytes if isinstance(action, ConnectionDrop) else None
    while data := await upstream.read(65536):
        writer.write(data if left is None else data[:left])
        await writer.drain()
        if left is not None:
            left -= len(data)
            if left <= 0:
                break
    await _finish(writer)


async def _relay_watch(
    upstream: asyncio.StreamReader,
    client: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    fault: StreamFault,
) -> None:
    leaving = asyncio.ensure_future(client.read())
    relaying = asyncio.ensure_future(_relay_lines(upstream, writer, fault))
    try:
        await asyncio.wait(
            {leaving, relaying},
            timeout=fault.after_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not leaving.done():
            held = relaying.result() if relaying.done() else None
            relaying.cancel()
            await _end(writer, fault, held or b"")
            if fault.then == "freeze":
                await leaving
    finally:
        leaving.cancel()
        relaying.cancel()
        await asyncio.gather(leaving, relaying, return_exceptions=True)


async def _relay_lines(
    upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: StreamFault
) -> bytes | None:
    """Relay until the fault's line, which is returned instead, or the end."""
    relayed = 0
    async for line in _lines(upstream):
        if fault.after_lines is not None and relayed >= fault.after_lines:
            return line
        relayed += 1
        changed = fault.change(line) if fault.change else line
        if changed is not None:
            writer.write(_chunk(changed))
            await writer.drain()
        if relayed == fault.after_lines and fault.then != "cut":
            return b""
        if fault.after_snapshot and INITIAL_EVENTS_END.encode() in line:
            return b""
    return None


async def _end(writer: asyncio.StreamWriter, fault: StreamFault, held: bytes) -> None:
    if fault.then == "freeze":
        return
    if fault.then == "cut":
        writer.write(_chunk(held[: len(held) // 2] or b'{"type":'))
        await _finish(writer)
        return
    if fault.then == "error":
        assert fault.answer is not None
        event = b'{"type":"ERROR","object":' + fault.answer.body() + b"}\n"
        writer.write(_chunk(event))
    writer.write(b"0\r\n\r\n")
    await _finish(writer)


async def _send_answer(writer: asyncio.StreamWriter, answer: ProxyResponse) -> None:
    body = answer.body()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **answer.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} Ordered\r\n{lines}\r\n".encode() + body)
    await _finish(writer)


async def _finish(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def _lines(upstream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a chunked body, with their line breaks."""
    buffered = b""
    while size := int((await upstream.readline()).split(b";")[0], 16):
        buffered += await upstream.readexactly(size)
        await upstream.readexactly(2)
        *lines, buffered = buffered.split(b"\n")
        for line in lines:
            yield line + b"\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _parse_request(head: bytes) -> ProxiedRequest:
    method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return ProxiedRequest(method, parts.path, query)


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.partition(b":") for line in head[:-4].split(b"\r\n")[1:])
    return {name.decode().lower(): value.decode().strip() for name, _, value in pairs}
