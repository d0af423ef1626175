"""HTTP connection to one API server, as one user.

Configuration and credentials are lightkube's. There are two HTTP clients over one TLS context and
one authentication: `requests` for single requests, with a bounded pool, and `streams` for watches,
each of which has a connection of its own for minutes. So hundreds of watches never keep a request
waiting. Through a proxy both use the transports of the HTTP library, otherwise ours. Every error
that leaves is ours. A process that may write only for a time, such as a leader, writes by
`with_lease_guard`.

`HalfOpenTrace` closes a connection whose opening was cancelled. The HTTP library closes what it
opened after any error, but not when its caller is cancelled between the TCP connection and the end
of the TLS handshake: then the socket stays until it is collected, with a warning.
"""

from __future__ import annotations

import copy
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from windlass.base.errors import Stalled
from windlass.kube import configuration, errors, exec_auth
from windlass.kube.configuration import Access
from windlass.kube.http import transports
from windlass.kube.http.transports import PooledTransport, StreamTransport
from windlass.objects.names import GVR


async def close_half_open(request: httpx2.Request) -> None:
    """Request hook: close the connection of `request` if its TLS handshake never completes."""
    request.extensions["trace"] = HalfOpenTrace()


class HalfOpenTrace:
    """Trace of one request: holds its TCP stream until TLS is established."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Handle a trace event of the HTTP library."""
        if event.endswith(".connect_tcp.complete"):
            self._stream = info["return_value"]
        elif event.endswith(".start_tls.complete"):
            self._stream = None
        elif event.endswith(".start_tls.failed") and self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.aclose()


CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 65.0
"""The API server aborts a request after 60 s; its error is more precise than our timeout."""
QUEUE_SECONDS = 30.0

_TRANSPORT_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ConfigError)
_LIMITS = httpx2.Limits(
    max_connections=transports.MOST_OPEN,
    max_keepalive_connections=transports.MOST_IDLE,
    keepalive_expiry=transports.IDLE_SECONDS,
)
_STREAM_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
_TIMEOUT = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, pool=QUEUE_SECONDS)


class Connection:
    """An authenticated connection to one API server; close it, or use it as a context manager."""

    def __init__(self, access: Access, *, user_agent: str) -> None:
        config, user = access.config, access.config.user or User()
        self.server = config.cluster.server.rstrip("/")
        self.namespace = config.namespace
        self.context_name = config.context_name
        self.without_watchlist: set[GVR] = set()
        """Types whose server refused a WatchList; they are listed instead. Shared by reflectors."""
        self.may_write: Callable[[], bool] = lambda: True
        """Whether this process may write now; called right before each write."""
        self.impersonates = bool(access.impersonation)
        """Whether the kubeconfig impersonates another user."""
        shared: dict[str, Any] = {
            "base_url": self.server,
            "auth": exec_auth.exec_authentication(user, access.plugin_cluster),
            "headers": [
                (b"User-Agent", user_agent.encode()),
                (b"Accept", b"application/json"),
                *access.impersonation,
            ],
            "trust_env": False,
            "timeout": _TIMEOUT,
        }
        clients = _direct if access.proxy is None else _proxied
        self.requests, self.streams = clients(shared, _tls(config, user), access)

    @classmethod
    def open(
        cls,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        user_agent: str = "windlass",
    ) -> Connection:
        """Load the kubeconfig; no request is made yet."""
        return cls(configuration.load(kubeconfig, context), user_agent=user_agent)

    def with_lease_guard(self, may_write: Callable[[], bool]) -> Connection:
        """The same connection, whose writes are refused while `may_write` returns False."""
        other = copy.copy(self)
        other.may_write = may_write
        return other

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The complete response to one request; an ApiError unless it is a success."""
        try:
            response = await self.requests.request(
                method, path, params=params, content=content, headers=headers
            )
        except _TRANSPORT_ERRORS as error:
            raise errors.from_transport(error) from error
        if not response.is_success:
            raise errors.from_response(response.status_code, response.content, response.headers)
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], idle_seconds: float
    ) -> AsyncIterator[httpx2.AsyncByteStream]:
        """The body of one GET as a stream; Idle after `idle_seconds` without a byte."""
        timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, read=idle_seconds)
        request = self.streams.build_request(
            "GET", path, params=params, timeout=timeout, headers={"Accept-Encoding": "identity"}
        )
        try:
            response = await self.streams.send(request, stream=True)
        except _TRANSPORT_ERRORS as error:
            raise errors.from_transport(error) from error
        try:
            await _refuse_failure(response)
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            yield response.stream
        except httpx2.ReadTimeout as error:
            raise errors.Idle(0, "Idle", f"no data for {idle_seconds:g} s") from error
        except (httpx2.HTTPError, OSError) as error:
            raise errors.from_transport(error) from error
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self.streams.aclose()
        await self.requests.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _direct(
    shared: dict[str, Any], tls: ssl.SSLContext, access: Access
) -> tuple[httpx2.AsyncClient, httpx2.AsyncClient]:
    name = access.tls_server_name
    return (
        httpx2.AsyncClient(**shared, transport=PooledTransport(tls, name)),
        httpx2.AsyncClient(**shared, transport=StreamTransport(tls, name)),
    )


def _proxied(
    shared: dict[str, Any], tls: ssl.SSLContext, access: Access
) -> tuple[httpx2.AsyncClient, httpx2.AsyncClient]:
    async def expect_name(request: httpx2.Request) -> None:
        if access.tls_server_name:
            request.extensions["sni_hostname"] = access.tls_server_name

    hooks = {"request": [close_half_open, expect_name]}
    options: dict[str, Any] = {**shared, "verify": tls, "proxy": access.proxy, "event_hooks": hooks}
    return (
        httpx2.AsyncClient(**options, limits=_LIMITS),
        httpx2.AsyncClient(**options, limits=_STREAM_LIMITS),
    )


def _tls(config: SingleConfig, user: User) -> ssl.SSLContext:
    try:
        return verify_cluster(config.cluster, user, config.abs_file)
    except (OSError, ValueError, TypeError) as error:
        raise Stalled(
            "KubeconfigInvalid",
            f"the certificates of context {config.context_name!r} cannot be used: "
            f"{errors.clean(str(error))}",
        ) from error


async def _refuse_failure(response: httpx2.Response) -> None:
    if response.status_code != 200:
        body = await response.aread()
        raise errors.from_response(response.status_code, body, response.headers)
