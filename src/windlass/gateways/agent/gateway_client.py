"""HTTP client for the gateway in the same pod only, and its API token file.

Only loopback addresses are accepted, redirects are not followed and no proxy of the environment is
used: a token never leaves the pod. Every fault becomes a `GatewayAnswer`. A certificate is checked
against the given CA, but not for its name, because a gateway's certificate names the Service;
without a CA it is not checked at all.

The token file is read again for every request: a rotated Secret takes effect without a restart. The
value is registered with the process's redactor before it is used, and is in no error.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx2

from windlass.base import redaction
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.gateways.agent.gateway_answers import GatewayAnswer, RequestFault

_MAX_TOKEN_BYTES = 4096
_RETRY_SECONDS = 30.0

_FileStamp = tuple[int, int, int]


class ApiTokenFile:
    """A file with an API token `name:secret`, which may be replaced at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Texts of the current token that the redactor knows; the old ones are removed.
        self._registered: tuple[str, ...] = ()
        # Inode, size and mtime at the last `read`; None before it and without a file.
        self._last_stamp: _FileStamp | None = None

    async def read(self) -> str:
        """The current token; raises a `WindlassError` for a missing or malformed file."""
        raw = await asyncio.to_thread(self._read)
        token = self._parse(raw)
        self._register(token)
        return token

    async def has_changed(self) -> bool:
        """Whether the file was replaced since the last `read`."""
        return await asyncio.to_thread(self._stamp) != self._last_stamp

    def _read(self) -> bytes:
        # The stamp is taken first: a file replaced in between then counts as changed.
        self._last_stamp = self._stamp()
        try:
            with self._path.open("rb") as file:
                return file.read(_MAX_TOKEN_BYTES + 1)
        except OSError as error:
            raise Waiting(
                "WaitingForCredential",
                f"cannot read the API token file {self._path}: {error.strerror}; create the "
                "Secret and key named by spec.gateway.apiKeySecretRef",
                after=_RETRY_SECONDS,
            ) from error

    def _stamp(self) -> _FileStamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _parse(self, raw: bytes) -> str:
        token = parse_token(raw)
        if token is None:
            raise WindlassError(
                "ScanUnauthorized",
                f"the API token file {self._path} must contain one line `name:secret`; "
                "correct the key named by spec.gateway.apiKeySecretRef",
            )
        return token

    def _register(self, token: str) -> None:
        forms = (token, token.partition(":")[2])
        if forms == self._registered:
            return
        for form in forms:
            redaction.process.add(form)
        for form in self._registered:
            redaction.process.discard(form)
        self._registered = forms


def parse_token(raw: bytes) -> str | None:
    """The token `name:secret` in the bytes of a file; None if they are malformed."""
    token = raw.decode("ascii", "replace").strip()
    name, _, secret = token.partition(":")
    is_printable = all(" " <= character <= "~" for character in token)
    return token if name and secret and is_printable and len(raw) <= _MAX_TOKEN_BYTES else None


_MAX_BODY_BYTES = 64 * 1024
_MAX_DETAIL_LENGTH = 200
_PORTS = {"http": 80, "https": 443}


class GatewayAddress:
    """The base URL of a gateway, checked to be on loopback."""

    def __init__(self, base_url: str) -> None:
        try:
            url = httpx2.URL(base_url)
        except httpx2.InvalidURL as error:
            raise _address_refused("not a URL") from error
        if url.scheme not in _PORTS:
            raise _address_refused("must start with http:// or https://")
        if not _is_loopback(url.host):
            raise _address_refused(f"{url.host!r} is not a loopback address; use 127.0.0.1")
        if url.userinfo or url.path not in {"", "/"} or url.query:
            raise _address_refused("must contain only scheme, host and port")
        self.host = url.host
        self.tls = url.scheme == "https"
        self.port = _PORTS[url.scheme] if url.port is None else url.port
        if not 0 < self.port < 65536:
            raise _address_refused(f"invalid port {self.port}")

    def url_for(self, port: int, *, tls: bool) -> str:
        """The base URL of another port of the same host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if tls else 'http'}://{host}:{port}"

    @property
    def url(self) -> str:
        return self.url_for(self.port, tls=self.tls)


class GatewayClient:
    """An open HTTP client; created by `open_client`."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def request(
        self, method: str, url: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> GatewayAnswer:
        """The answer to a request; `timeout` seconds bound the whole exchange."""
        try:
            async with asyncio.timeout(timeout):
                return await self._request(method, url, headers)
        except (TimeoutError, httpx2.TimeoutException):
            return GatewayAnswer(fault=RequestFault.TIMEOUT)
        except httpx2.TransportError as error:
            return _fault_answer(error)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None
    ) -> GatewayAnswer:
        async with self._client.stream(method, url, headers=headers) as response:
            body = b""
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    break
            return GatewayAnswer(
                response.status_code,
                body[:_MAX_BODY_BYTES],
                detail=_redact(response.headers.get("location", "")),
            )


@contextlib.asynccontextmanager
async def open_client(authority: Path | None) -> AsyncIterator[GatewayClient]:
    """A client for a group of requests; its connections are closed at the end."""
    context = await asyncio.to_thread(_ssl_context, authority)
    async with httpx2.AsyncClient(
        verify=context,
        trust_env=False,
        follow_redirects=False,
        timeout=None,
        headers={"accept": "application/json", "accept-encoding": "identity"},
    ) as client:
        yield GatewayClient(client)


def _ssl_context(authority: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # Loopback only: without a CA, TLS is for gateways that refuse plain HTTP, not for identity.
    if authority is None:
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context.load_verify_locations(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise Stalled(
            "GatewayUnreachable",
            f"cannot use the CA file {authority} of the gateway: {error.strerror or error}; "
            "correct the Secret named by spec.gateway.caSecretRef",
        ) from error
    return context


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _fault_answer(error: httpx2.TransportError) -> GatewayAnswer:
    text = str(error)
    fault = (
        RequestFault.UNTRUSTED if "CERTIFICATE_VERIFY_FAILED" in text else RequestFault.UNREACHABLE
    )
    return GatewayAnswer(fault=fault, detail=_redact(text or type(error).__name__))


def _redact(text: str) -> str:
    return redaction.process.clean(text, limit=_MAX_DETAIL_LENGTH)


def _address_refused(why: str) -> Stalled:
    return Stalled("InvalidSpec", f"invalid gateway address: {why}")
