"""Closes a connection whose opening was given up.

The HTTP library closes what it opened after any error, but not when its caller is
cancelled between the TCP connection and the end of the TLS handshake: then the socket
stays until it is collected, with a warning. A request that carries a `HalfOpen` closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2


async def watch(request: httpx2.Request) -> None:
    """Have the connection of `request` closed if it never becomes one; a request hook."""
    request.extensions["trace"] = HalfOpen()


class HalfOpen:
    """The connection of one request, as long as it speaks no TLS."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, event: str, about: Mapping[str, Any]) -> None:
        """Hear of a step that the library takes."""
        if event.endswith(".connect_tcp.complete"):
            self._stream = about["return_value"]
        elif event.endswith(".start_tls.complete"):
            self._stream = None
        elif event.endswith(".start_tls.failed") and self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.aclose()
