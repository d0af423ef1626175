"""Lines out of a byte stream, however it is cut into chunks.

There is no limit to a line: an object of 1.5 MiB is one line in many chunks. Parts of
an unfinished line are kept apart and joined once, so the cost is linear in the bytes.
"""

from __future__ import annotations


class LineSplitter:
    """Bytes in, whole lines out; empty lines are dropped."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line breaks."""
        lines = chunk.split(b"\n")
        unfinished = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if unfinished:
            self._parts.append(unfinished)
        return [line for line in lines if line] if b"" in lines else lines

    @property
    def has_unfinished(self) -> bool:
        """Whether the stream stands in the middle of a line."""
        return bool(self._parts)
