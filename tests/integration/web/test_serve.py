"""A real server on loopback: TLS, certificate renewal, limits, admission, probes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import socket
import ssl
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2
import pytest
from prometheus_client import CollectorRegistry

from tests.support.processes.polling import DEADLINE_SECONDS
from windlass.base.errors import Fatal, Stalled
from windlass.telemetry.reverser import ReverserMetrics
from windlass.web import body_limit, certificates, server
from windlass.web.admission import AdmissionEndpoint, AdmissionRequest
from windlass.web.certificates import Authority, Leaf
from windlass.web.endpoints import metrics_app, probes_app
from windlass.web.server import Server, ServerLimits
from windlass.web.tls import Tls

NOW = datetime.now(UTC)
PATH = "/process-validating-webhook/0123"
T = TypeVar("T")

PATIENT = ServerLimits(
    body_seconds=1000.0, head_seconds=1000.0, first_seconds=1000.0, keep_alive_seconds=10_000
)
"""Limits in time that no test reaches, however busy its machine is."""

LIMIT_SECONDS = 200.0
"""A limit that only a clock set forward reaches."""


class LoopClock:
    """The clock of the running event loop, which a test sets forward instead of waiting.

    Timers that are set keep their time, so a limit is reached when the test says so.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._real_time = loop.time
        self._ahead = 0.0
        loop.time = self._time  # type: ignore[method-assign]

    def _time(self) -> float:
        return self._real_time() + self._ahead

    def set_forward(self, seconds: float) -> None:
        self._ahead += seconds


async def within_deadline(awaited: Awaitable[T]) -> T:
    """The result of `awaited`; the deadline only ends a hang."""
    return await asyncio.wait_for(awaited, DEADLINE_SECONDS)


def http_client(authority_pem: bytes = b"") -> httpx2.AsyncClient:
    """A client that waits for responses, and trusts only this authority if one is given."""
    return httpx2.AsyncClient(
        verify=trusting(authority_pem) if authority_pem else True, timeout=DEADLINE_SECONDS
    )


@pytest.fixture(scope="module")
def authority() -> Authority:
    """The authority that clients trust."""
    return Authority.create("windlass test", NOW, days=2)


@pytest.fixture(scope="module")
def leaf(authority: Authority) -> Leaf:
    """A certificate and key for loopback."""
    return authority.issue(["localhost"], ["127.0.0.1"], NOW, days=1)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Send the body back."""
    body = (await receive())["body"]
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def trusting(authority_pem: bytes) -> ssl.SSLContext:
    """A client that trusts only this authority."""
    return ssl.create_default_context(cadata=authority_pem.decode())


def serial(writer: asyncio.StreamWriter) -> str:
    """The serial number of the server's certificate."""
    peer = writer.get_extra_info("peercert")
    return str(peer["serialNumber"])


async def dial(port: int, context: ssl.SSLContext | None = None) -> Any:
    """A raw connection, with TLS where a context is given."""
    name = "localhost" if context else None
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)


async def post_raw(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
) -> bytes:
    """Post on a raw connection and read the echo."""
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    await writer.drain()
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    return await reader.readexactly(len(body))


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close the connection and ignore errors of the other side."""
    writer.close()
    try:
        await writer.wait_closed()
    except (OSError, ssl.SSLError):
        return


async def test_clients_that_trust_our_authority_are_served(
    authority: Authority, leaf: Leaf
) -> None:
    """A client that trusts only our authority connects by name and by address."""
    tls = Tls(leaf.cert_pem, leaf.key_pem)
    async with (
        Server(echo, tls=tls) as server,
        http_client(authority.cert_pem) as client,
    ):
        for host in ("localhost", "127.0.0.1"):
            answer = await client.post(f"https://{host}:{server.port}/", content=b"hello")
            assert (answer.status_code, answer.content) == (200, b"hello")
            assert "server" not in answer.headers


async def test_clients_of_another_authority_are_refused(leaf: Leaf) -> None:
    """A client that trusts another authority ends the handshake."""
    other = Authority.create("other", NOW, days=1)
    async with (
        Server(echo, tls=Tls(leaf.cert_pem, leaf.key_pem)) as server,
        http_client(other.cert_pem) as client,
    ):
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"https://localhost:{server.port}/")


async def test_old_tls_is_refused(authority: Authority, leaf: Leaf) -> None:
    """A client that offers less than TLS 1.2 gets no handshake."""
    context = trusting(authority.cert_pem)
    assert Tls(leaf.cert_pem, leaf.key_pem).context.minimum_version == ssl.TLSVersion.TLSv1_2
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with Server(echo, tls=Tls(leaf.cert_pem, leaf.key_pem)) as server:
        reader, writer = await dial(server.port, context)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        assert await post_raw(reader, writer, b"x") == b"x"
        await hang_up(writer)


async def test_the_certificate_is_replaced_under_open_connections(
    authority: Authority, leaf: Leaf
) -> None:
    """A connection opened before stays open; one opened after it gets the new certificate."""
    heir = Authority.create("windlass next", NOW, days=2)
    fresh = heir.issue(["localhost"], [], NOW, days=1)
    context = trusting(certificates.bundle(NOW, heir.cert_pem, authority.cert_pem))
    tls = Tls(leaf.cert_pem, leaf.key_pem)
    async with Server(echo, tls=tls) as server:
        old_reader, old_writer = await dial(server.port, context)
        assert await post_raw(old_reader, old_writer, b"before") == b"before"
        assert tls.reload(fresh.cert_pem, fresh.key_pem)
        assert not tls.reload(fresh.cert_pem, fresh.key_pem)
        new_reader, new_writer = await dial(server.port, context)
        assert await post_raw(new_reader, new_writer, b"new") == b"new"
        assert await post_raw(old_reader, old_writer, b"old") == b"old"
        assert serial(new_writer) != serial(old_writer)
        await hang_up(old_writer)
        await hang_up(new_writer)


async def test_broken_pair_leaves_the_served_one(authority: Authority, leaf: Leaf) -> None:
    """A certificate and key that do not match are refused, and the old ones stay in use."""
    tls = Tls(leaf.cert_pem, leaf.key_pem)
    other = authority.issue(["localhost"], [], NOW, days=1)
    async with Server(echo, tls=tls) as server:
        with pytest.raises(Stalled, match="not a matching PEM pair"):
            tls.reload(other.cert_pem, leaf.key_pem)
        reader, writer = await dial(server.port, trusting(authority.cert_pem))
        assert await post_raw(reader, writer, b"x") == b"x"
        await hang_up(writer)


async def test_a_client_authority_excludes_others(authority: Authority, leaf: Leaf) -> None:
    """With a client CA only clients it signed are served."""
    tls = Tls(leaf.cert_pem, leaf.key_pem, client_ca=authority.cert_pem)
    async with Server(echo, tls=tls) as server:
        reader, writer = await dial(server.port, trusting(authority.cert_pem))
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await post_raw(reader, writer, b"x")
        await hang_up(writer)


async def test_unreadable_client_authority_is_refused(leaf: Leaf) -> None:
    """A client CA that is not PEM is refused when the server is created."""
    with pytest.raises(Stalled, match="client CA"):
        Tls(leaf.cert_pem, leaf.key_pem, client_ca=b"\xffnonsense")


async def test_taken_port_names_the_flag() -> None:
    """A port in use is reported with the option that chooses another."""
    async with Server(echo) as first:
        second = Server(echo, "127.0.0.1", first.port, flag="--webhook-bind-address")
        with pytest.raises(Fatal) as caught:
            await second.start()
        assert caught.value.message == (
            f"port {first.port} is already in use; change --webhook-bind-address"
        )
        await second.stop()


def test_foreign_address_is_explained() -> None:
    """An address of another machine is named as the reason."""
    with pytest.raises(Fatal, match="not an address of this host"):
        server.bind_socket("192.0.2.1", 0)


async def test_bound_socket_is_used() -> None:
    """A socket that was bound before is served, on its own port."""
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    async with Server(echo, bound=bound) as server, http_client() as client:
        assert server.port == port
        assert (await client.post(f"http://127.0.0.1:{port}/", content=b"a")).content == b"a"


async def test_a_canceled_start_listens_on_no_port() -> None:
    """Canceling while a server starts leaves no port and no task behind."""
    bound = server.bind_socket("127.0.0.1", 0, flag="")
    port = bound.getsockname()[1]
    starting = asyncio.ensure_future(Server(echo, bound=bound).__aenter__())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection("127.0.0.1", port)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("serve")] == []


async def test_every_address_is_the_empty_host() -> None:
    """The empty host listens on every address, loopback included."""
    async with Server(echo, "", 0) as server, http_client() as client:
        answer = await client.post(f"http://127.0.0.1:{server.port}/", content=b"a")
        assert answer.content == b"a"


async def test_signal_handlers_stay_the_process_own() -> None:
    """Serving does not take over SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    async with Server(echo):
        assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_body_is_refused(chunked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body over the cap gets 413 with or without a declared length."""
    monkeypatch.setattr(body_limit, "_LINGER_SECONDS", PATIENT.body_seconds)

    async def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 65536

    content = chunks() if chunked else b"x" * 65536 * 40
    async with (
        Server(echo, limits=dataclasses.replace(PATIENT, body_bytes=1024 * 1024)) as server,
        http_client() as client,
    ):
        answer = await client.post(f"http://127.0.0.1:{server.port}/", content=content)
        assert answer.status_code == 413
        assert answer.text == "the body is larger than 1048576 bytes\n"


class OpenedBodies:
    """A gate that admits every request, and knows when the first body is being read."""

    def __init__(self) -> None:
        self.first = asyncio.Event()

    def admits(self, scope: Any) -> bool:
        del scope
        return True

    def opened(self, scope: Any) -> None:
        del scope
        self.first.set()

    def failed(self, scope: Any) -> None:
        del scope


async def cut(reader: asyncio.StreamReader) -> None:
    """Wait until the server has closed a connection on which it sent nothing."""
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await within_deadline(reader.readexactly(1))


async def read_at_the_limit(
    clock: LoopClock,
    server: Server,
    reader: asyncio.StreamReader,
    *,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """What ends a connection when the clock is set forward to its limit, and not before.

    The server accepts in order: when it serves one, it has accepted those that were opened before.
    """
    received = asyncio.create_task(reader.read())
    for _ in range(2):
        other = await dial(server.port, tls)
        assert await within_deadline(post_raw(*other, b"x")) == b"x"
        assert not received.done()
        await hang_up(other[1])
        clock.set_forward(LIMIT_SECONDS / 2)
    try:
        return await within_deadline(received)
    except ConnectionError:
        return b""


async def test_slow_body_is_refused() -> None:
    """A sender that stops within the body gets 408 and loses the connection."""
    bodies, limits = OpenedBodies(), dataclasses.replace(PATIENT, body_seconds=LIMIT_SECONDS)
    clock = LoopClock()
    async with Server(echo, gate=bodies, limits=limits) as server:
        reader, writer = await dial(server.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
        await within_deadline(bodies.first.wait())
        answer = await read_at_the_limit(clock, server, reader)
        assert answer.startswith(b"HTTP/1.1 408")
        assert answer.endswith(b"did not arrive in 200 s\n")
        await hang_up(writer)


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nhost: a\r\n"])
async def test_slow_head_is_cut(sent: bytes) -> None:
    """A connection without a complete head in time is closed without a response."""
    clock, limits = LoopClock(), dataclasses.replace(PATIENT, head_seconds=LIMIT_SECONDS)
    async with Server(echo, limits=limits) as server:
        reader, writer = await dial(server.port)
        writer.write(sent)
        assert await read_at_the_limit(clock, server, reader) == b""
        await hang_up(writer)


async def test_a_slow_head_on_a_kept_connection_is_cut() -> None:
    """A later head has its own deadline, from its first byte."""
    limits = dataclasses.replace(PATIENT, head_seconds=LIMIT_SECONDS)
    clock = LoopClock()
    async with Server(echo, limits=limits) as server:
        reader, writer = await dial(server.port)
        assert await within_deadline(post_raw(reader, writer, b"one")) == b"one"
        clock.set_forward(LIMIT_SECONDS * 2)
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\n")
        assert await read_at_the_limit(clock, server, reader) == b""
        await hang_up(writer)


async def test_endless_head_is_cut() -> None:
    """A head that never ends is cut long before the deadline."""
    async with Server(echo, limits=PATIENT) as server:
        reader, writer = await dial(server.port)
        writer.write(b"GET / HTTP/1.1\r\nx: " + b"a" * 400_000)
        await cut(reader)
        await hang_up(writer)


async def test_kept_connection_serves_again_after_the_head_deadline() -> None:
    """Idle time between two requests does not count for the head of the second."""
    limits = dataclasses.replace(PATIENT, head_seconds=LIMIT_SECONDS)
    clock = LoopClock()
    async with Server(echo, limits=limits) as server:
        silent_reader, silent_writer = await dial(server.port)
        reader, writer = await dial(server.port)
        assert await within_deadline(post_raw(reader, writer, b"one")) == b"one"
        clock.set_forward(LIMIT_SECONDS)
        await cut(silent_reader)
        assert await within_deadline(post_raw(reader, writer, b"two")) == b"two"
        await hang_up(writer)
        await hang_up(silent_writer)


async def test_running_request_is_finished_before_the_end() -> None:
    """A request that runs when the server stops still gets its response."""
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def held(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await go_on.wait()
        await echo(scope, receive, send)

    server = Server(held)
    await server.start()
    reader, writer = await dial(server.port)
    pending = asyncio.create_task(post_raw(reader, writer, b"late"))
    await entered.wait()
    stopping = asyncio.create_task(server.stop())
    go_on.set()
    assert await pending == b"late"
    await stopping
    await server.wait()
    await hang_up(writer)


async def test_hung_request_is_cut_at_the_deadline() -> None:
    """A request that never ends does not keep the process alive."""
    entered = asyncio.Event()

    async def hung(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(DEADLINE_SECONDS):
        async with Server(hung, limits=dataclasses.replace(PATIENT, drain_seconds=1)) as server:
            reader, writer = await dial(server.port)
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            await entered.wait()
        with pytest.raises(OSError, match="Connect call failed"):
            await dial(server.port)
        await reader.read()
        await hang_up(writer)


def review(uid: str) -> bytes:
    """A small AdmissionReview."""
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    request = {"uid": uid, "operation": "CREATE", "resource": resource, "object": {"a": 1}}
    envelope = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    return json.dumps({**envelope, "request": request}).encode()


async def test_the_admission_response_precedes_its_processing(
    authority: Authority, leaf: Leaf
) -> None:
    """The client has its response before the callback has ended."""
    answered = asyncio.Event()
    received: asyncio.Queue[AdmissionRequest] = asyncio.Queue()
    order: list[str] = []

    async def work(request: AdmissionRequest) -> None:
        await answered.wait()
        order.append("worked")
        await received.put(request)

    running: set[asyncio.Task[None]] = set()
    endpoint = AdmissionEndpoint(
        lambda request: running.add(asyncio.create_task(work(request))), paths=[PATH]
    )
    async with (
        Server(endpoint, tls=Tls(leaf.cert_pem, leaf.key_pem)) as server,
        http_client(authority.cert_pem) as client,
    ):
        url = f"https://localhost:{server.port}{PATH}?timeout=1s"
        answer = await client.post(url, content=review("u-1"))
        order.append("answered")
        answered.set()
        assert answer.json()["response"] == {"uid": "u-1", "allowed": True}
        assert (await within_deadline(received.get())).object == b'{"a": 1}'
    assert order == ["answered", "worked"]


async def test_malformed_admission_keeps_the_connection() -> None:
    """Each broken body gets a response and the next good one is still served."""
    received: list[AdmissionRequest] = []
    async with (
        Server(AdmissionEndpoint(received.append, paths=[PATH])) as server,
        http_client() as client,
    ):
        url = f"http://127.0.0.1:{server.port}{PATH}"
        for body in (b"", b"{", b"\x00" * 1000, b"[" * 200_000):
            assert (await client.post(url, content=body)).status_code == 400
        cut = await client.post(url, content=review("u-2")[:-20])
        assert cut.json()["response"] == {"uid": "u-2", "allowed": True}
        good = await client.post(url, content=review("u-3"))
        assert good.json()["response"]["allowed"]
        broken = b'{"request":{"uid":"u-4","operation":7}}'
        assert (await client.post(url, content=broken)).json()["response"]["uid"] == "u-4"
    assert [request.uid for request in received] == ["u-3"]


async def _called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> bytes:
    """The status line of the response to a review."""
    body = review("u")
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await within_deadline(reader.readuntil(b"\r\n\r\n"))
    length = int(answer.split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return answer.split(b"\r\n")[0]


async def test_at_the_limit_the_longest_idle_connection_is_closed() -> None:
    """No client gets a 503; a connection with a valid call is closed after all those without."""
    received: list[AdmissionRequest] = []
    endpoint = AdmissionEndpoint(received.append, paths=[PATH])
    # Nothing but the limit closes a connection within the test.
    limits = dataclasses.replace(PATIENT, connections=3)
    async with Server(endpoint, gate=endpoint, limits=limits) as server:
        known = await dial(server.port)
        assert await _called(*known, PATH) == b"HTTP/1.1 200 OK"
        silent = [await dial(server.port) for _ in range(2)]
        late = await dial(server.port)
        await cut(silent[0][0])
        assert await _called(*late, PATH) == b"HTTP/1.1 200 OK"
        assert await _called(*known, PATH) == b"HTTP/1.1 200 OK"
        for _, writer in (known, *silent, late):
            await hang_up(writer)
    assert len(received) == 3


async def test_a_connection_without_a_call_has_a_short_timeout() -> None:
    """After its first call a connection may be idle for long."""
    endpoint = AdmissionEndpoint(lambda _: None, paths=[PATH])
    limits = dataclasses.replace(PATIENT, first_seconds=LIMIT_SECONDS)
    clock = LoopClock()
    async with Server(endpoint, gate=endpoint, limits=limits) as server:
        silent = await dial(server.port)
        known = await dial(server.port)
        assert await _called(*known, PATH) == b"HTTP/1.1 200 OK"
        clock.set_forward(LIMIT_SECONDS / 2)
        assert await _called(*known, PATH) == b"HTTP/1.1 200 OK"
        assert not silent[0].at_eof()
        assert silent[0].exception() is None
        clock.set_forward(LIMIT_SECONDS / 2)
        await cut(silent[0])
        assert await _called(*known, PATH) == b"HTTP/1.1 200 OK"
        await hang_up(known[1])
        await hang_up(silent[1])


async def test_an_unfinished_handshake_is_cut(authority: Authority, leaf: Leaf) -> None:
    """A client that opens a connection without a TLS handshake is disconnected soon."""
    tls = Tls(leaf.cert_pem, leaf.key_pem)
    limits = dataclasses.replace(PATIENT, first_seconds=LIMIT_SECONDS)
    clock = LoopClock()
    async with Server(echo, tls=tls, limits=limits) as server:
        reader, writer = await dial(server.port)
        context = trusting(authority.cert_pem)
        assert await read_at_the_limit(clock, server, reader, tls=context) == b""
        await hang_up(writer)


async def test_failed_calls_on_the_right_path_are_record_gaps() -> None:
    """A body that does not arrive, or is too large, is a gap there and nothing elsewhere."""
    lost: list[int] = []
    endpoint = AdmissionEndpoint(lambda _: None, paths=[PATH], lost=lambda: lost.append(1))
    # Only the body that does not arrive meets the deadline: the others are refused by their head.
    limits = dataclasses.replace(PATIENT, body_bytes=100, body_seconds=0.2)
    async with Server(endpoint, gate=endpoint, limits=limits) as server:
        for path, status, losses in (("/x", b"404", 0), (PATH, b"408", 1)):
            reader, writer = await dial(server.port)
            writer.write(f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\na".encode())
            answer = await within_deadline(reader.read())
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert len(lost) == losses
            await hang_up(writer)
        async with http_client() as client:
            base = f"http://127.0.0.1:{server.port}"
            assert (await client.post(f"{base}/x", content=b"x" * 200)).status_code == 404
            assert len(lost) == 1
            assert (await client.post(f"{base}{PATH}", content=b"x" * 200)).status_code == 413
    assert len(lost) == 2


async def test_an_aborted_call_on_the_right_path_is_a_record_gap() -> None:
    """The API server gives up after a second, perhaps in the middle of its request."""
    lost = asyncio.Event()
    endpoint = AdmissionEndpoint(lambda _: None, paths=[PATH], lost=lost.set)
    async with Server(endpoint, gate=endpoint, limits=PATIENT) as server:
        _, writer = await dial(server.port)
        writer.write(f"POST {PATH} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\na".encode())
        await writer.drain()
        await hang_up(writer)
        await within_deadline(lost.wait())


async def test_probes_list_failing_checks() -> None:
    """Readiness lists each with a sentence; liveness is separate."""
    state: dict[str, str | None] = {"caches": "configmaps are still loading"}
    app = probes_app(live={}, ready={"caches": lambda: state["caches"], "leader": lambda: None})
    async with Server(app) as server, http_client() as client:
        base = f"http://127.0.0.1:{server.port}"
        assert (await client.get(f"{base}/healthz")).text == "ok\n"
        waiting = await client.get(f"{base}/readyz")
        assert waiting.status_code == 503
        assert waiting.text == "caches: configmaps are still loading\n"
        state["caches"] = None
        assert (await client.get(f"{base}/readyz")).status_code == 200
        assert (await client.get(f"{base}/other")).status_code == 404


async def test_metrics_are_exposed() -> None:
    """A scrape has the recorded values, in the requested format."""
    live = ReverserMetrics(CollectorRegistry())
    live.commits.inc("user")
    async with Server(metrics_app(live.registry)) as server, http_client() as client:
        url = f"http://127.0.0.1:{server.port}/metrics"
        plain = await client.get(url)
        assert 'gitopsreverser_commits_total{author_kind="user"} 1.0' in plain.text
        assert plain.headers["content-type"].startswith("text/plain")
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        opened = await client.get(url, headers=accept)
        assert opened.headers["content-type"].startswith("application/openmetrics-text")
        assert opened.text.endswith("# EOF\n")
