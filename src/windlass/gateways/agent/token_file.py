"""The file that holds the gateway's API token, read again for every request.

A Secret that is rotated reaches the file without a restart. The value is registered
with the process's redactor before anybody else sees it, and is in no error.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from windlass.base import redaction
from windlass.base.errors import Waiting, WindlassError

_LARGEST = 4096
_LOOK_AGAIN_SECONDS = 30.0

_Stamp = tuple[int, int, int]


class TokenFile:
    """A `name:secret` in a file that may be replaced at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._registered: tuple[str, ...] = ()
        self._seen: _Stamp | None = None

    async def read(self) -> str:
        """The token as it is now; a WindlassError says what is wrong with the file."""
        raw = await asyncio.to_thread(self._read)
        token = self._checked(raw)
        self._register(token)
        return token

    async def changed(self) -> bool:
        """Whether the file is another one than at the last `read`."""
        return await asyncio.to_thread(self._stamp) != self._seen

    def _read(self) -> bytes:
        # The stamp is taken first: a file replaced in between then counts as changed.
        self._seen = self._stamp()
        try:
            with self._path.open("rb") as file:
                return file.read(_LARGEST + 1)
        except OSError as error:
            raise Waiting(
                "WaitingForCredential",
                f"the API token file {self._path} cannot be read: {error.strerror}; "
                "create the Secret and key that gateway.apiKeySecretRef names",
                after=_LOOK_AGAIN_SECONDS,
            ) from error

    def _stamp(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _checked(self, raw: bytes) -> str:
        token = parsed(raw)
        if token is None:
            raise WindlassError(
                "ScanUnauthorized",
                f"the API token file {self._path} does not hold one line `name:secret`; "
                "correct the key that gateway.apiKeySecretRef names",
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


def parsed(raw: bytes) -> str | None:
    """The `name:secret` in the bytes of a file; None where they are something else."""
    token = raw.decode("ascii", "replace").strip()
    name, _, secret = token.partition(":")
    plain = all(" " <= letter <= "~" for letter in token)
    return token if name and secret and plain and len(raw) <= _LARGEST else None
