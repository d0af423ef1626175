"""The TLS side of a listening socket, with a certificate that is swapped in place.

One SSLContext lives as long as its server: new handshakes see the newest pair, open
connections keep the one they began with. A pair is tried on a scratch context first,
because a half loaded pair would break the live one. OpenSSL reads keys from paths
only, so the key stands in a 0600 file in memory for the moment of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from windlass.base.errors import Stalled

_MEMORY = Path("/dev/shm")  # noqa: S108 - mkstemp makes a private file in it


class Tls:
    """A server's TLS context; TLS 1.2 or newer, client certificates only where a CA is given."""

    def __init__(self, cert_pem: bytes, key_pem: bytes, *, client_ca: bytes = b"") -> None:
        self._client_ca = client_ca
        self._pair = (cert_pem, key_pem)
        self.context = self._new_context()
        _load(self.context, cert_pem, key_pem)

    @classmethod
    async def from_files(cls, cert: Path, key: Path, client_ca: Path | None = None) -> Tls:
        pair = await asyncio.to_thread(_read_pair, cert, key)
        authority = await asyncio.to_thread(_read, client_ca) if client_ca else b""
        return cls(*pair, client_ca=authority)

    def reload(self, cert_pem: bytes, key_pem: bytes) -> bool:
        """Serve this pair from now on; False when it is served already."""
        if (cert_pem, key_pem) == self._pair:
            return False
        _load(self._new_context(), cert_pem, key_pem)
        _load(self.context, cert_pem, key_pem)
        self._pair = (cert_pem, key_pem)
        return True

    async def reload_files(self, cert: Path, key: Path) -> bool:
        """Like `reload`; the files are read beside the loop, the context changes on it."""
        return self.reload(*await asyncio.to_thread(_read_pair, cert, key))

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca:
            _require_clients(context, self._client_ca)
        return context


def _require_clients(context: ssl.SSLContext, client_ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=client_ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise _refused("the client CA is not a list of PEM certificates") from error
    context.verify_mode = ssl.CERT_REQUIRED


def _load(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes) -> None:
    with _spilled(key_pem + b"\n" + cert_pem) as path:
        try:
            # A password is named so that OpenSSL never asks for one at a terminal.
            context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            raise _refused("certificate and key are no PEM pair that belongs together") from error


@contextlib.contextmanager
def _spilled(content: bytes) -> Iterator[Path]:
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    descriptor, name = tempfile.mkstemp(prefix="windlass-tls-", dir=place)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield path
    finally:
        path.unlink()


def _read_pair(cert: Path, key: Path) -> tuple[bytes, bytes]:
    return _read(cert), _read(key)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(f"{path} cannot be read: {error.strerror}") from error


def _refused(message: str) -> Stalled:
    return Stalled("CertificateUnreadable", message)
