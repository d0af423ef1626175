"""Process groups that end as a whole."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest

from tests.support.processes.polling import eventually
from windlass.base import process_group


@pytest.mark.parametrize("times", [1, 2])
async def test_a_canceled_start_leaves_no_descendant(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Descendants of a child end with it, also those it started before its start was reported."""
    noted = tmp_path / "pid"
    begin = asyncio.create_subprocess_exec
    held = asyncio.Event()

    async def slow(*command: str, **how: object) -> asyncio.subprocess.Process:
        process = await begin(*command, **how)  # type: ignore[arg-type]
        await held.wait()
        return process

    async def pid() -> str:
        return await asyncio.to_thread(_read, noted)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    script = f"sleep 600 & echo $! > {noted}; wait"
    starting = asyncio.ensure_future(
        process_group.started("/bin/sh", "-c", script, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    )
    child_pid = (await eventually(pid, "the child runs")).strip()
    for _ in range(times):
        starting.cancel()
        await asyncio.sleep(0)
    held.set()
    with pytest.raises(asyncio.CancelledError):
        await starting

    async def has_exited() -> bool:
        return _state(child_pid) in ("", "Z")

    await eventually(has_exited, "the child's child has ended")


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
