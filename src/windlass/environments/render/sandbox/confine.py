"""Confines this process, then becomes another program. Run as a file, never imported.

    python -I -S confine.py PARENT SECONDS FILTER READABLE... -- PROGRAM ARGUMENT...

PARENT is the process that must be alive, SECONDS how much processor time may be used, FILTER
the seccomp filter in hexadecimal, with a mark where this process's id belongs. The current
directory may be read, `home` in it written; READABLE are further files and directories,
those that do not exist are passed over.
A step that fails ends the process with status 125 before the program is started. Only
the standard library is here, and little of it: a render waits for this.

Files are held by Landlock where the kernel has it. Without it they are held by ownership
alone, which is why the operator's own token must not lie where its renders run. The user is
not changed, also not root: program and directory lie where only their owner may look. What
makes root more than an owner, its capabilities, is given up.
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
"""Directories and plain files, nothing else."""
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
        _bind(int(parent), int(seconds))
        _give_up_capabilities()
        _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)
        _hold_files(readable)
        _install(bytes.fromhex(steps))
        os.execve(command[0], command, dict(os.environ))  # noqa: S606
    except OSError as error:
        print(f"{error.filename or 'confinement'}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(_UNCONFINED)


def _bind(parent: int, seconds: int) -> None:
    """Limits that hold for all descendants, and an end together with the parent's."""
    os.closerange(3, _HIGHEST_DESCRIPTOR)
    os.umask(0o077)
    _limit(resource.RLIMIT_CPU, seconds)
    _limit(resource.RLIMIT_NOFILE, _MOST_FILES)
    _volunteer()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0)
    if os.getppid() != parent:
        os._exit(_UNCONFINED)


def _volunteer() -> None:
    """Where memory runs out, this process is ended before the operator that shares it."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
            score.write("1000")
    except OSError:
        return


def _limit(kind: int, most: int) -> None:
    """The kernel warns at the lower number and kills at the higher one."""
    before = resource.getrlimit(kind)[1]
    bound = most + 1 if before == resource.RLIM_INFINITY else min(most + 1, before)
    resource.setrlimit(kind, (min(most, bound), bound))


def _give_up_capabilities() -> None:
    """All of them; what may be gained by starting a program is never more than is held."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, nothing), "capset")


def _hold_files(readable: list[str]) -> None:
    version = _libc.syscall(*_words(_CREATE_RULESET, 0, 0, _RULESET_VERSION))
    if version < 1:
        return
    handled = sum(bits for since, bits in _FILE_RIGHTS_BY_VERSION.items() if version >= since)
    ruleset = _Ruleset(
        handled,
        _ALL_TCP if version >= _TCP_SINCE else 0,
        _ALL_SCOPES if version >= _SCOPES_SINCE else 0,
    )
    rules = _landlock(_CREATE_RULESET, ctypes.addressof(ruleset), ctypes.sizeof(ruleset), 0)
    _open_up(rules, ".", _READ)
    for path in readable:
        _open_up(rules, path, _READ | _EXECUTE)
    for path in ("home", os.devnull):
        _open_up(rules, path, _WRITE & handled)
    _landlock(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _open_up(rules: int, path: str, rights: int) -> None:
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
    """The second half of a step is its value; the program will have our id."""
    own = os.getpid().to_bytes(4, sys.byteorder)
    found = (steps[at : at + _STEP_BYTES] for at in range(0, len(steps), _STEP_BYTES))
    return b"".join(step[:4] + own if step[4:] == _OWN_ID else step for step in found)


def _prctl(option: int, first: int, second: int) -> None:
    _check(_libc.prctl(option, *_words(first, second, 0, 0)), "prctl")


def _landlock(*arguments: int) -> int:
    return _check(_libc.syscall(*_words(*arguments)), "landlock")


def _words(*values: int) -> list[ctypes.c_ulong]:
    """The kernel reads whole registers; an int would fill half of one."""
    return [ctypes.c_ulong(value) for value in values]


def _check(answer: int, call: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return answer


if __name__ == "__main__":
    _main(sys.argv[1:])
