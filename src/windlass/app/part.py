"""One capability as the controller role runs it: while leading, and apart from the others."""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from windlass.base.errors import Fatal, WindlassError

_BEGIN_AGAIN_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class Part(Protocol):
    """A capability; `run` works until cancelled, `unready` says why it does not yet."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...

    def unready(self) -> str | None: ...


async def keep(part: Part) -> None:
    """Run a part, and begin it again after a fault that may pass."""
    while True:
        try:
            await part.run()
        except Fatal:
            raise
        except WindlassError as error:
            _log.warning(
                "cannot work yet", part=part.name, reason=error.reason, message=error.message
            )
            await asyncio.sleep(_BEGIN_AGAIN_SECONDS)
