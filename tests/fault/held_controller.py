"""`windlass controller` that pauses right before it releases its lease.

Run as a program. HELD_IN names a directory: `reached` appears there when the lease is about to be
released, and writing to the pipe `go` lets it go on.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from windlass.cli.main import main
from windlass.runtime.lease import LeaderElection

_release = LeaderElection.release


async def _held_release(election: LeaderElection) -> None:
    directory = Path(os.environ["HELD_IN"])
    (directory / "reached").touch()
    await asyncio.to_thread((directory / "go").read_bytes)
    await _release(election)


if __name__ == "__main__":
    LeaderElection.release = _held_release  # type: ignore[method-assign]
    main()
