"""The seccomp filter of one architecture, as bytes for the kernel. Pure.

A classic BPF program reads the number of a system call, its architecture and its first
argument, and returns a verdict. Each rule is a block of its own that either returns or
falls through to the next; the last instruction allows the call. A call by the rules of another
architecture (32 bit, x32) has other numbers, so it is never compared: it kills or fails.
The id of the process is not known yet: OWN_ID is a placeholder that `confine` replaces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.environments.render.sandbox import syscalls

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
EPERM = _ERRNO | 1
ENOSYS = _ERRNO | 38

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

OWN_ID = 0x7FFFFFFF
"""The id of no process: the kernel has no number that high."""

_AF_UNIX = 1
_THREAD = 0x10000
_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture that charts can be rendered on."""

    audit: int  # AUDIT_ARCH_* of the kernel
    column: int  # of the tables in `syscalls`
    has_x32: bool  # whether a second ABI shares its number space


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0xC000003E, 0, has_x32=True),
    "aarch64": Architecture(0xC00000B7, 1, has_x32=False),
}
"""By the machine name of uname; on both the low half of an argument comes first in memory."""


def program(architecture: Architecture) -> bytes:
    """The filter, eight bytes to an instruction."""
    return b"".join(_instructions(architecture))


def _instructions(architecture: Architecture) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, architecture.audit, true=1)
    yield _step(_RETURN, KILL_PROCESS)
    yield _step(_LOAD, _NUMBER)
    if architecture.has_x32:
        yield _step(_AT_LEAST, _X32, false=1)
        yield _step(_RETURN, EPERM)
    for table, verdict in ((syscalls.DENIED, EPERM), (syscalls.UNKNOWN, ENOSYS)):
        for number in _numbers(table, architecture):
            yield _step(_EQUAL, number, false=1)
            yield _step(_RETURN, verdict)
    for table, only in (
        (syscalls.ONLY_UNIX, _AF_UNIX),
        (syscalls.ONLY_CALLER, 0),
        (syscalls.ONLY_OWN_THREADS, OWN_ID),
    ):
        for number in _numbers(table, architecture):
            yield from _deny_unless(number, _step(_EQUAL, only, true=1))
    for number in _numbers(syscalls.ONLY_NEW_THREADS, architecture):
        is_namespace = _step(_ANY_BIT, _NEW_NAMESPACE, true=1)
        yield from _deny_unless(number, is_namespace, _step(_ANY_BIT, _THREAD, true=1))
    yield _step(_RETURN, ALLOW)


def _deny_unless(number: int, *checks: bytes) -> Iterator[bytes]:
    """Refuse a call unless the last check of its first argument skips one instruction."""
    yield _step(_EQUAL, number, false=len(checks) + 3)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    yield from checks
    yield _step(_RETURN, EPERM)
    # The number is no longer loaded, and no other rule is about this call.
    yield _step(_RETURN, ALLOW)


def _numbers(table: Mapping[str, syscalls.Numbers], architecture: Architecture) -> Iterator[int]:
    for numbers in table.values():
        number = numbers[architecture.column]
        if number is not None:
            yield number


def _step(code: int, value: int, *, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)
