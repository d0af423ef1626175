"""Starts, recognizes and kills processes, with pids that may have been reused.

A recorded process is itself only if the kernel's start time fits and it still runs our
program or has our directory on its command line. Killing goes through a pidfd: the check
and the signal meet the same process, which psutil, for example, does not promise: it checks
and then signals a pid. A zombie counts as dead.

Background commands are windlass processes that belong to a cluster: its git server, its
operator. They too are recognized by the cluster's directory on their command line, so
none can be lost, not even one whose starter was killed before it wrote a record.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass_dev.cluster.cluster_state import RecordedProcess

_PROC = Path("/proc")
_START_TICKS_FIELD = 19
_CHUNK = 1 << 16
_DELETED = " (deleted)"

_GO_ENVIRONMENT = {"GOGC": "400"}
"""Garbage collection takes a fifth of the CPU of a small control plane; this costs 130 MiB."""

_INHERITED_GO_VARIABLES = ("GOGC", "GOMAXPROCS", "GOMEMLIMIT")

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process by pid; they must be waited for here or they stay zombies."""

_exit_codes: dict[int, int] = {}
"""Exit status by pid of the children that were waited for; negative is a signal."""


def spawn(
    command: Sequence[str],
    *,
    directory: Path,
    log: Path,
    enter: Sequence[str] = (),
    path: str = "",
) -> RecordedProcess:
    """Start `command` detached, in a session of its own, with output appended to `log`.

    Of the environment it inherits only the variables of the Go runtime, because etcd and
    Kubernetes read settings from there. It does not inherit the umask, with which pods might
    not be able to read files that are created for them. `enter` is a command that enters
    namespaces and then becomes `command`.
    """
    search_path = path or os.environ.get("PATH", os.defpath)
    inherited = {name: os.environ[name] for name in _INHERITED_GO_VARIABLES if name in os.environ}
    environment = {**_GO_ENVIRONMENT, **inherited, "PATH": search_path, "HOME": str(directory)}
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*enter, *command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o022,
        )
    _children[child.pid] = child
    _exit_codes.pop(child.pid, None)
    _wait_for_arguments(child)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    ticks = _start_ticks(child.pid)
    return RecordedProcess(child.pid, ticks or 0, os.path.realpath(command[0]), since)


def _wait_for_arguments(child: subprocess.Popen[bytes]) -> None:
    """Wait until the kernel shows the arguments of `child`.

    `Popen` returns before that, and a scan for processes by their arguments would miss it.
    """
    while not _command_line(child.pid) and child.poll() is None:
        time.sleep(0.001)


def is_alive(process: RecordedProcess, directory: Path) -> bool:
    """Whether `process` still runs and still is the one that was recorded."""
    child = _children.get(process.pid)
    if child is not None and (code := child.poll()) is not None:
        _exit_codes[process.pid] = code
        del _children[process.pid]
    if _start_ticks(process.pid) != process.started_ticks:
        return False
    return executable(process.pid) == process.executable or _mentions_directory(
        process.pid, directory
    )


def describe_exit(process: RecordedProcess) -> str:
    """The signal or exit status of `process`; empty if another process started it."""
    code = _exit_codes.get(process.pid)
    if code is None:
        return ""
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"


def inspect_process(pid: int) -> RecordedProcess | None:
    """The process `pid` as it is now, None if it is dead."""
    ticks = _start_ticks(pid)
    return None if ticks is None else RecordedProcess(pid, ticks, executable(pid), "")


def find_processes(
    directory: Path, programs: Iterable[str], *, through: str = ""
) -> Iterator[RecordedProcess]:
    """Every live process that runs one of `programs` and names a file in `directory`.

    A process of the program `through`, which is about to become one of them, counts as well.
    """
    program_names = frozenset(programs)
    for pid, names in scan_processes(directory, through=through):
        process = inspect_process(pid) if names & program_names else None
        if process is not None:
            yield process


def scan_processes(directory: Path, *, through: str = "") -> Iterator[tuple[int, set[str]]]:
    """Every process that names a file in `directory`, with the possible names of its program."""
    with os.scandir(_PROC) as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        if _mentions_directory(pid, directory):
            yield pid, _program_names(pid, through)


def kill_processes(
    victims: Iterable[RecordedProcess], directory: Path, *, seconds: float = 15.0
) -> None:
    """SIGKILL all of `victims` at once, then wait until every one is gone."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        signaled = [_send_kill(victim, directory, stack) for victim in victims]
        for pid, descriptor in filter(None, signaled):
            _wait_for_exit(pid, descriptor, deadline)


def resident_bytes(pid: int) -> int:
    """The resident memory of `pid` in bytes, 0 if it is gone."""
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _send_kill(
    victim: RecordedProcess, directory: Path, stack: contextlib.ExitStack
) -> tuple[int, int] | None:
    try:
        descriptor = os.pidfd_open(victim.pid)
    except ProcessLookupError:
        return None
    stack.callback(os.close, descriptor)
    # Checked after the pidfd was opened: from here on the pid cannot be reused unnoticed.
    if not is_alive(victim, directory):
        return None
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    return victim.pid, descriptor


def _wait_for_exit(pid: int, descriptor: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise WindlassError(
            "ProcessStuck", f"process {pid} did not exit after SIGKILL; it is blocked in the kernel"
        )
    child = _children.pop(pid, None)
    if child is not None:
        child.wait()


def _start_ticks(pid: int) -> int | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program, in parentheses, may contain spaces and parentheses itself.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TICKS_FIELD])


def executable(pid: int) -> str:
    """The path of the program that `pid` runs; empty if it is gone or not readable."""
    try:
        return str((_PROC / str(pid) / "exe").readlink()).removesuffix(_DELETED)
    except OSError:
        return ""


def _command_line(pid: int) -> bytes:
    # Without a file object, which costs more: this runs for every process on the machine.
    try:
        descriptor = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, _CHUNK), b""))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _mentions_directory(pid: int, directory: Path) -> bool:
    # Arguments are separated by NUL, which no path contains: a match lies within one argument.
    return os.fsencode(directory) + b"/" in _command_line(pid)


def _program_names(pid: int, through: str) -> set[str]:
    # A wrapper script that did not `exec` shows its interpreter as the program; the
    # script is then one of the first arguments, a module the one after `-m`.
    arguments = [os.fsdecode(argument) for argument in _command_line(pid).split(b"\0")]
    names = _base_names([executable(pid), *arguments[:3]])
    if through in names and "--" in arguments:
        return _base_names(arguments[arguments.index("--") + 1 :][:3])
    return names


def _base_names(paths: Iterable[str]) -> set[str]:
    return {Path(path).name for path in paths if path}


def start_background(directory: Path, name: str, arguments: Sequence[str]) -> Path:
    """Start `windlass ARGUMENTS` detached; its output goes to the log that is returned."""
    if not any(str(directory) in argument for argument in arguments):
        raise ValueError(f"{name} must name {directory}, or it could not be found again")
    log = directory / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        subprocess.Popen(
            [str(windlass_program()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "WINDLASS_LOG_FORMAT": "json"},
        )
    return log


def windlass_program() -> Path:
    """The `windlass` program of the virtual environment that this process runs in."""
    return Path(sys.executable).with_name("windlass")


def kill_background(directory: Path) -> None:
    """Kill every background command of the cluster in `directory`."""
    interpreters = {Path(sys.executable).name, Path(os.path.realpath(sys.executable)).name}
    own_pid = os.getpid()
    companions = [
        process for process in find_processes(directory, interpreters) if process.pid != own_pid
    ]
    kill_processes(companions, directory)
