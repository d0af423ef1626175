"""Requests to the gateway in the same pod, and to nothing else.

Only loopback addresses are accepted, redirects are not followed and no proxy of the
environment is used: a token never leaves the pod. Every fault becomes an `Answer`. A
certificate is checked against the given authority, but not for its name, because a
gateway's names the Service; without an authority it is not checked at all.
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
from windlass.base.errors import Stalled
from windlass.gateways.decide.scan_answers import Answer, Fault

_LARGEST_BODY = 64 * 1024
_LONGEST_DETAIL = 200
_PORTS = {"http": 80, "https": 443}


class Address:
    """A gateway's base URL, checked to be on loopback."""

    def __init__(self, base_url: str) -> None:
        try:
            url = httpx2.URL(base_url)
        except httpx2.InvalidURL as error:
            raise _refused("it is not a URL") from error
        if url.scheme not in _PORTS:
            raise _refused("it must begin with http:// or https://")
        if not _is_loopback(url.host):
            raise _refused(f"{url.host!r} is not a loopback address; write 127.0.0.1")
        if url.userinfo or url.path not in {"", "/"} or url.query:
            raise _refused("it may hold scheme, host and port only")
        self.host = url.host
        self.tls = url.scheme == "https"
        self.port = _PORTS[url.scheme] if url.port is None else url.port
        if not 0 < self.port < 65536:
            raise _refused(f"there is no port {self.port}")

    def at(self, port: int, *, tls: bool) -> str:
        """The base URL of another port of the same host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if tls else 'http'}://{host}:{port}"

    @property
    def url(self) -> str:
        return self.at(self.port, tls=self.tls)


class Loopback:
    """An open client; made by `opened`."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def ask(
        self, method: str, url: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer within `timeout` seconds, which bound the whole exchange."""
        try:
            async with asyncio.timeout(timeout):
                return await self._ask(method, url, headers)
        except (TimeoutError, httpx2.TimeoutException):
            return Answer(fault=Fault.TIMEOUT)
        except httpx2.TransportError as error:
            return _faulty(error)

    async def _ask(self, method: str, url: str, headers: Mapping[str, str] | None) -> Answer:
        async with self._client.stream(method, url, headers=headers) as response:
            body = b""
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _LARGEST_BODY:
                    break
            return Answer(
                response.status_code,
                body[:_LARGEST_BODY],
                detail=_clean(response.headers.get("location", "")),
            )


@contextlib.asynccontextmanager
async def opened(authority: Path | None) -> AsyncIterator[Loopback]:
    """A client for some requests that belong together; connections close at the end."""
    context = await asyncio.to_thread(_context, authority)
    async with httpx2.AsyncClient(
        verify=context,
        trust_env=False,
        follow_redirects=False,
        timeout=None,
        headers={"accept": "application/json", "accept-encoding": "identity"},
    ) as client:
        yield Loopback(client)


def _context(authority: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if authority is None:
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context.load_verify_locations(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise Stalled(
            "GatewayUnreachable",
            f"the authority {authority} of the gateway cannot be used: {error.strerror or error}; "
            "correct the Secret that gateway.caSecretRef names",
        ) from error
    return context


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _faulty(error: httpx2.TransportError) -> Answer:
    text = str(error)
    fault = Fault.UNTRUSTED if "CERTIFICATE_VERIFY_FAILED" in text else Fault.UNREACHABLE
    return Answer(fault=fault, detail=_clean(text or type(error).__name__))


def _clean(text: str) -> str:
    return redaction.process.clean(text, limit=_LONGEST_DETAIL)


def _refused(why: str) -> Stalled:
    return Stalled("InvalidSpec", f"the gateway's address cannot be used: {why}")
