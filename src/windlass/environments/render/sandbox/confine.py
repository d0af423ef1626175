"""Confines this process, then becomes another program. Run as a file, never imported.

    python -I -S confine.py PARENT SECONDS FILTER READABLE... -- PROGRAM ARGUMENT...

PARENT is the id of the process that must be alive, SECONDS the limit of processor time, FILTER
the seccomp filter in hexadecimal, with a placeholder for this process's id. The current
directory may be read, `home` in it written; READABLE are further files and directories, of
which missing ones are skipped.
A step that fails ends the process with status 125 before the program is started. Only the
standard library is imported, and little of it: every render waits for this.

File access is restricted by Landlock where the kernel has it. Without it only file ownership
restricts it, which is why the operator's own token must not be mounted where its renders run.
The user is not changed, not even root: only their owner may read program and directory. What
makes root more than an owner, its capabilities, is given up.

`child` starts it; it must not import anything of windlass.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_UNCONFINED = 125

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
_STEP_BYTES = 8
_OWN_ID = (0x7FFFFFFF).to_bytes(4, sys.byteorder)
_CAPABILITY_VERSION = 0x20080522
_MOST_FILES = 256
_HIGHEST_DESCRIPTOR = 1 << 16

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1, 2, 4, 8
_FILE_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TRUNCATE = 1 << 14
_MAKE_AND_REMOVE = 0x1B0
"""The rights to make and remove directories and plain files, nothing else."""
_READ = _READ_FILE | _READ_DIRECTORY
_WRITE = _READ | _WRITE_FILE | _MAKE_AND_REMOVE | _TRUNCATE
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_TCP_SINCE, _ALL_TCP = 4, 3
_SCOPES_SINCE, _ALL_SCOPES = 6, 3

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "network", "scopes")]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("directory", ctypes.c_int32)]


def _main(arguments: list[str]) -> None:
    end = arguments.index("--")
    parent, seconds, steps, *readable = arguments[:end]
    command = arguments[end + 1 :]
    try:
        _limit_process(int(parent), int(seconds))
        _give_up_capabilities()
        _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)
        _restrict_files(readable)
        _install(bytes.fromhex(steps))
        os.execve(command[0], command, dict(os.environ))  # noqa: S606
    except OSError as error:
        print(f"{error.filename or 'confinement'}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(_UNCONFINED)


def _limit_process(parent: int, seconds: int) -> None:
    """Set limits that all descendants inherit, and die together with the parent."""
    os.closerange(3, _HIGHEST_DESCRIPTOR)
    os.umask(0o077)
    _limit(resource.RLIMIT_CPU, seconds)
    _limit(resource.RLIMIT_NOFILE, _MOST_FILES)
    _raise_oom_score()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0)
    # The parent may have died before the signal was requested.
    if os.getppid() != parent:
        os._exit(_UNCONFINED)


def _raise_oom_score() -> None:
    """Make the OOM killer end this process before the operator in the same container."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
            score.write("1000")
    except OSError:
        return


def _limit(kind: int, limit: int) -> None:
    """Set soft and hard limit: the kernel warns at the lower one and kills at the higher."""
    hard = resource.getrlimit(kind)[1]
    bound = limit + 1 if hard == resource.RLIM_INFINITY else min(limit + 1, hard)
    resource.setrlimit(kind, (min(limit, bound), bound))


def _give_up_capabilities() -> None:
    """Drop all capabilities; with no_new_privs a program cannot gain any by execve either."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, nothing), "capset")


def _restrict_files(readable: list[str]) -> None:
    """Restrict file access, TCP and signals by Landlock, as far as the kernel supports it."""
    version = _libc.syscall(*_words(_CREATE_RULESET, 0, 0, _RULESET_VERSION))
    if version < 1:
        return  # a kernel without Landlock: see the docstring of the module
    handled = sum(bits for since, bits in _FILE_RIGHTS_BY_VERSION.items() if version >= since)
    ruleset = _Ruleset(
        handled,
        _ALL_TCP if version >= _TCP_SINCE else 0,
        _ALL_SCOPES if version >= _SCOPES_SINCE else 0,
    )
    rules = _landlock(_CREATE_RULESET, ctypes.addressof(ruleset), ctypes.sizeof(ruleset), 0)
    _allow_path(rules, ".", _READ)
    for path in readable:
        _allow_path(rules, path, _READ | _EXECUTE)
    for path in ("home", os.devnull):
        _allow_path(rules, path, _WRITE & handled)
    _landlock(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _allow_path(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):  # noqa: PTH112
        rights &= _ON_FILES
    rule = _PathBeneath(rights, opened)
    _check(_libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, ctypes.byref(rule), 0), "landlock")
    os.close(opened)


def _install(steps: bytes) -> None:
    steps = _with_own_id(steps)
    program = _Filter(len(steps) // _STEP_BYTES, steps)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def _with_own_id(steps: bytes) -> bytes:
    """Fill in this process's id, which execve keeps; bytes 4 to 8 of a step are its value."""
    own = os.getpid().to_bytes(4, sys.byteorder)
    split = (steps[at : at + _STEP_BYTES] for at in range(0, len(steps), _STEP_BYTES))
    return b"".join(step[:4] + own if step[4:] == _OWN_ID else step for step in split)


def _prctl(option: int, first: int, second: int) -> None:
    _check(_libc.prctl(option, *_words(first, second, 0, 0)), "prctl")


def _landlock(*arguments: int) -> int:
    return _check(_libc.syscall(*_words(*arguments)), "landlock")


def _words(*values: int) -> list[ctypes.c_ulong]:
    """Arguments as whole registers; ctypes would pass an int as half of one."""
    return [ctypes.c_ulong(value) for value in values]


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return result


if __name__ == "__main__":
    _main(sys.argv[1:])
