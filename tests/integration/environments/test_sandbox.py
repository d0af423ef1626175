"""The sandbox of renders, tried by programs that attempt to leave it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.dev_command import is_alive
from tests.support.processes.polling import eventually
from windlass.base.errors import Stalled
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.sandbox import child
from windlass.environments.render.sandbox.child import RenderLimits

_PYTHON = f"{sys.base_prefix}/bin/python3"
_MIB = 1 << 20


async def _run(directory: Path, script: str, limits: RenderLimits | None = None) -> str:
    (directory / child.HOME).mkdir(exist_ok=True)
    ended = await child.run(
        [_PYTHON, "-I", "-S", "-c", script],
        directory=directory,
        limits=limits or RenderLimits(seconds=20),
        environment={},
        readable=(sys.base_prefix,),
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


_ATTEMPTS = """
import ctypes, errno, json, os, signal, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
def tried(work):
    try:
        work()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def call(number, *arguments):
    def work():
        if libc.syscall(number, *map(ctypes.c_long, arguments)) < 0:
            raise OSError(ctypes.get_errno(), "")
    return tried(work)
X86 = os.uname().machine == "x86_64"
print(json.dumps({
    "inet": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
    "inet6": tried(lambda: socket.socket(socket.AF_INET6)),
    "netlink": tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "unix": tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "../log")),
    "pair": tried(lambda: [end.close() for end in socket.socketpair()]),
    "thread": tried(threading.Thread(target=int).start),
    "own signal": tried(lambda: signal.raise_signal(signal.SIGCONT)),
    "signal": tried(lambda: os.kill(os.getppid(), 0)),
    "thread of others": call(234 if X86 else 131, os.getppid(), os.getppid(), 0),
    "limits of others": call(302 if X86 else 261, os.getppid(), 7, 0, 0),
    "lasting memory": call(29 if X86 else 194, 0, 4096, 0o1600),
    "ptrace": call(101 if X86 else 117, 0, 0, 0, 0),
    "unshare": call(272 if X86 else 97, 0x10000000),
    "mount": call(165 if X86 else 40, 0, 0, 0, 0, 0),
    "io_uring": call(425, 1, 0),
    "clone3": call(435, 0, 0),
    "bpf": call(321 if X86 else 280, 0, 0, 0),
    "setsid": tried(os.setsid),
    "fork": tried(lambda: os.waitpid(os.fork() or os._exit(0), 0)),
    "chown": tried(lambda: os.chown("home", 12345, 12345)),
    "environment": dict(os.environ),
    "descriptors": [n for n in range(3, 200) if tried(lambda: os.fstat(n)) != "EBADF"],
    "session": os.getsid(0) == os.getpid(),
}))
"""


@pytest.mark.scenario("E121")
async def test_ways_out_of_the_process_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No network, no other process, no capabilities, nothing of our environment or files."""
    monkeypatch.setenv("WINDLASS_CANARY", "seen")
    inherited = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        seen: dict[str, Any] = json.loads(await _run(tmp_path, _ATTEMPTS))
    finally:
        os.close(inherited)
    environment = seen.pop("environment")
    assert seen.pop("session") is True
    assert seen.pop("descriptors") == []
    assert seen.pop("clone3") == "ENOSYS"
    assert [seen.pop(name) for name in ("pair", "thread", "own signal")] == ["done"] * 3
    assert set(seen.values()) == {"EPERM"}, seen
    variables = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    assert {environment[name] for name in variables} == {str(tmp_path / child.HOME)}
    assert "WINDLASS_CANARY" not in environment
    assert "PATH" not in environment


_FILES = """
import json, os, sys
def tried(work):
    try:
        work()
    except OSError as error:
        return type(error).__name__
    return "done"
print(json.dumps([
    tried(lambda: open("given").read()),
    tried(lambda: open("home/new", "w").write("x")),
    tried(lambda: open("given", "w")),
    tried(lambda: open("../token").read()),
    tried(lambda: os.listdir("/proc")),
    tried(lambda: os.execv("/bin/sh", ["sh"])),
    tried(lambda: os.kill(os.getppid(), 0)),
]))
"""


def _has_landlock() -> bool:
    import ctypes

    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6


@pytest.mark.scenario("E121")
@pytest.mark.skipif(not _has_landlock(), reason="this kernel has no Landlock of version 6")
async def test_only_given_files_are_seen(tmp_path: Path) -> None:
    """A token beside the render cannot be read, nor can other programs and processes."""
    directory = tmp_path / "render"
    directory.mkdir()
    (directory / "given").write_text("x")
    (tmp_path / "token").write_text("secret")
    seen = json.loads(await _run(directory, _FILES))
    assert seen == ["done", "done", *["PermissionError"] * 5]


@pytest.mark.parametrize(
    ("script", "limits", "words"),
    [
        ("import time; time.sleep(60)", RenderLimits(seconds=0.5), "exceeded 0.5 s"),
        (
            "while True: print('x' * 100000)",
            RenderLimits(seconds=20, output_bytes=_MIB),
            "exceeded 1 MiB of output",
        ),
        (
            "x = b'x' * (4 << 30)",
            RenderLimits(seconds=20, memory_bytes=64 * _MIB),
            "64 MiB of memory",
        ),
        ("import signal; signal.raise_signal(9)", RenderLimits(seconds=20), "1024 MiB of memory"),
        ("import signal; signal.raise_signal(24)", RenderLimits(seconds=20), "exceeded 20 s"),
    ],
)
async def test_renders_end_at_their_limits(
    tmp_path: Path, script: str, limits: RenderLimits, words: str
) -> None:
    """Time, output, memory, and a child that the kernel kills for one of them."""
    with pytest.raises(RenderRefused, match=words) as refused:
        await _run(tmp_path, script, limits)
    assert refused.value.reason == "RenderTooLarge"


_OPERATOR = """
import asyncio, pathlib, sys
from windlass.environments.render.sandbox import child
script = "import os, time; open(f'home/{os.getpid()}', 'w'); time.sleep(60)"
directory, python, readable = sys.argv[1:]
asyncio.run(child.run([python, "-I", "-S", "-c", script], directory=pathlib.Path(directory),
    limits=child.RenderLimits(), environment={}, readable=(readable,)))
"""


async def test_a_killed_operator_leaves_no_render(tmp_path: Path) -> None:
    """The kernel ends the child when its parent dies."""
    home = tmp_path / child.HOME
    home.mkdir()
    given = (str(tmp_path), _PYTHON, sys.base_prefix)
    operator = await asyncio.create_subprocess_exec(sys.executable, "-c", _OPERATOR, *given)
    try:

        async def started() -> str:
            return next((path.name for path in home.iterdir()), "")

        pid = int(await eventually(started, "the render runs"))
        assert is_alive(pid)
    finally:
        operator.kill()
        await operator.wait()

    async def ended() -> bool:
        return not is_alive(pid)

    await eventually(ended, "the render is gone")


async def test_a_program_that_cannot_start_is_reported(tmp_path: Path) -> None:
    """A program for another architecture, or one without a shell, is not a fault of the chart."""
    (tmp_path / child.HOME).mkdir()
    broken = tmp_path / "helm"
    broken.write_bytes(b"\x7fELF and nothing else")
    broken.chmod(0o755)
    with pytest.raises(Stalled, match="environments-helm") as stalled:
        await child.run([str(broken)], directory=tmp_path, limits=RenderLimits(), environment={})
    assert stalled.value.reason == "SandboxUnavailable"


async def test_without_a_filter_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that the kernel refuses ends in SandboxUnavailable; no child is started."""
    monkeypatch.setattr(child.seccomp, "program", lambda _: b"\0" * 8)
    with pytest.raises(Stalled, match="cannot confine the render process"):
        await _run(tmp_path, "open('home/started', 'w')")
    assert not (tmp_path / child.HOME / "started").exists()


async def test_other_architectures_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a table of its system calls there is no filter."""
    monkeypatch.setattr(child.platform, "machine", lambda: "riscv64")
    with pytest.raises(Stalled, match="x86_64 or aarch64"):
        await _run(tmp_path, "")
