"""How much memory an agent's engine needs to sync a large commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.git.http_server import branch_tips, git

_SMALL_BYTES = 50_000
_LARGE_BYTES = 40_000_000

_SYNC = """
import asyncio, sys
from pathlib import Path
from windlass.base import memory
memory.limit_arenas()
import windlass.app.agent
from windlass.git import store_limits
store_limits.limit_pack_windows()
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.agent.sync import SyncEngine
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.agent.inputs import SyncRequest
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.wire.routing import ANNOTATION_PREFIX, Routing, hash_routing
from windlass.git.runner import Git
from windlass.git.commit_store import CommitStore, RemoteSource
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings

async def main(directory, repository, commit, size):
    settings = GitSettings(run_directory=directory / "run2", allow_file=True)
    store = CommitStore.open(Git(settings), directory / "store2", cap_bytes=1 << 30)
    volume = DataVolume(directory / "data2", LockOwner("u", "p", "n"))
    pod = GatewayPod("site-0", "plant", {ANNOTATION_PREFIX + "service-path": "."}, {})
    source = RemoteSource(Remote.parse(f"file://{repository}"))
    request = SyncRequest(source, commit, "main", Routing(),
                          hash_routing(Routing()), pod, "site")
    result = await SyncEngine(volume, store).sync(request)
    assert result.applied.bytes_written == size, result.applied

directory = Path(sys.argv[1])
(directory / "data2").mkdir()
asyncio.run(main(directory, sys.argv[2], sys.argv[3], int(sys.argv[4])))
# Unlike ru_maxrss this starts at zero with the program.
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def peak_mib(directory: Path, *, small: int, large: int) -> int:
    """The peak memory of a process that syncs so many files of 50 KB and of 40 MB."""
    repository = directory / "big.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repository)], check=True)
    size = _fill(repository, small, large)
    finished = subprocess.run(
        [
            sys.executable,
            "-c",
            _SYNC,
            directory,
            repository,
            branch_tips(repository)["main"],
            str(size),
        ],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return int(finished.stdout)


def _fill(repository: Path, small: int, large: int) -> int:
    """Commit files that do not compress; returns their total size."""
    parts = [b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nx\n"]
    sizes = {f"projects/p/{n}.bin": _SMALL_BYTES for n in range(small)}
    sizes |= {f"projects/p/large{n}.bin": _LARGE_BYTES for n in range(large)}
    for name, size in sizes.items():
        parts.append(f"M 100644 inline {name}\ndata {size}\n".encode() + os.urandom(size))
        parts.append(b"\n")
    git(repository, "config", "core.compression", "0")
    git(repository, "config", "pack.window", "0")
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    # Without it, git would search long for common parts of such files.
    git(repository, "fast-import", "--quiet", "--depth=0", stdin=b"".join(parts))
    return sum(sizes.values())
