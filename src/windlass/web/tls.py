"""TLS context of a server, whose certificate is replaced in place.

One SSLContext lives as long as its server: new handshakes see the newest pair, open
connections keep the one they began with. A pair is tried on a scratch context first,
because a half loaded pair would break the live one. OpenSSL reads keys from paths
only, so it gets the path of a descriptor: the key never has a name of its own.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator

from windlass.base import files
from windlass.base.errors import Stalled


class Tls:
    """A server's TLS context; TLS 1.2 or newer, client certificates only where a CA is given."""

    def __init__(self, cert_pem: bytes, key_pem: bytes, *, client_ca: bytes = b"") -> None:
        self._client_ca = client_ca
        self._pair = (cert_pem, key_pem)
        self.context = self._new_context()
        _load(self.context, cert_pem, key_pem)

    def reload(self, cert_pem: bytes, key_pem: bytes) -> bool:
        """Serve this pair from now on; False when it is served already."""
        if (cert_pem, key_pem) == self._pair:
            return False
        _load(self._new_context(), cert_pem, key_pem)
        _load(self.context, cert_pem, key_pem)
        self._pair = (cert_pem, key_pem)
        return True

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
    with _as_path(key_pem + b"\n" + cert_pem) as path:
        try:
            # A password is named so that OpenSSL never asks for one at a terminal.
            context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            raise _refused("certificate and key are not a matching PEM pair") from error


@contextlib.contextmanager
def _as_path(content: bytes) -> Iterator[str]:
    descriptor = files.anonymous_file(content)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _refused(message: str) -> Stalled:
    return Stalled("CertificateUnreadable", message)
