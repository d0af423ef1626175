"""How much memory an agent's engine takes to bring a large commit onto the disk."""

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

async def main(place, repository, commit, size):
    settings = GitSettings(run_directory=place / "run2", allow_file=True)
    store = CommitStore.open(Git(settings), place / "store2", cap_bytes=1 << 30)
    volume = DataVolume(place / "data2", LockOwner("u", "p", "n"))
    pod = GatewayPod("site-0", "plant", {ANNOTATION_PREFIX + "service-path": "."}, {})
    source = RemoteSource(Remote.parse(f"file://{repository}"))
    request = SyncRequest(source, commit, "main", Routing(),
                          hash_routing(Routing()), pod, "site")
    done = await SyncEngine(volume, store).sync(request)
    assert done.applied.bytes_written == size, done.applied

place = Path(sys.argv[1])
(place / "data2").mkdir()
asyncio.run(main(place, sys.argv[2], sys.argv[3], int(sys.argv[4])))
# Unlike ru_maxrss this begins anew with the program.
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def peak_mib(place: Path, *, small: int, large: int) -> int:
    """The most that a process held which synced so many files of 50 KB and of 40 MB."""
    repository = place / "big.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repository)], check=True)
    size = _fill(repository, small, large)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _SYNC,
            place,
            repository,
            branch_tips(repository)["main"],
            str(size),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _fill(repository: Path, small: int, large: int) -> int:
    """A commit of files of which none compresses; their bytes together."""
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
    # It would look long for what two such files have in common.
    git(repository, "fast-import", "--quiet", "--depth=0", stdin=b"".join(parts))
    return sum(sizes.values())
