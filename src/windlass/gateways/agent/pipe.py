"""Hands the pieces of a large content from one thread to another, a few at a time.

The side that writes waits for the side that reads, so only a handful of pieces is ever in
memory. Either side may break off; the other one then ends too, and nobody waits for ever.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

_PIECES = 8
_LOOK_SECONDS = 0.2


class BrokenPipe(Exception):
    """The other side has given up."""


class Pipe:
    """One content on its way."""

    def __init__(self) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_PIECES)
        self._broken = threading.Event()

    def put(self, piece: bytes) -> None:
        """Hand over a piece; waits while the reader is behind."""
        self._put(piece)

    def end(self) -> None:
        """No piece follows."""
        self._put(None)

    def break_off(self) -> None:
        """Let the other side end with an error."""
        self._broken.set()

    def pieces(self) -> Iterator[bytes]:
        """All pieces, in order."""
        while True:
            try:
                piece = self._pieces.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._check()
                continue
            if piece is None:
                return
            yield piece

    def _put(self, piece: bytes | None) -> None:
        while True:
            self._check()
            try:
                self._pieces.put(piece, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return

    def _check(self) -> None:
        if self._broken.is_set():
            raise BrokenPipe
