"""The seccomp filter, interpreted as the kernel does."""

from __future__ import annotations

import struct

import pytest

from windlass.environments.render.sandbox import seccomp, syscalls
from windlass.environments.render.sandbox.seccomp import ALLOW, ENOSYS, EPERM, KILL_PROCESS

X86, ARM = seccomp.ARCHITECTURES["x86_64"], seccomp.ARCHITECTURES["aarch64"]
_I386 = 0x40000003
_COMPARISONS = {
    0x15: lambda left, right: left == right,
    0x35: lambda left, right: left >= right,
    0x45: lambda left, right: bool(left & right),
}


def _verdict(
    architecture: seccomp.Architecture, number: int, first: int = 0, *, audit: int | None = None
) -> int:
    """The program's result for one system call; no other instruction may appear in it."""
    data = struct.pack(
        "<IIQ6Q", number, architecture.audit if audit is None else audit, 0, first, 0, 0, 0, 0, 0
    )
    steps = list(struct.iter_unpack("<HBBI", seccomp.program(architecture)))
    at, loaded = 0, 0
    while True:
        code, true, false, value = steps[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        else:
            at += true if _COMPARISONS[code](loaded, value) else false


@pytest.mark.parametrize("architecture", [X86, ARM])
def test_every_denied_call_is_refused(architecture: seccomp.Architecture) -> None:
    """Whatever its argument is."""
    for name, numbers in syscalls.DENIED.items():
        number = numbers[architecture.column]
        for first in (0, 1, 0xFFFFFFFF) if number is not None else ():
            assert _verdict(architecture, number or 0, first) == EPERM, name


@pytest.mark.parametrize(
    ("architecture", "calls"),
    [
        # read, write, mmap, execve, futex, openat, getrandom, sendmsg, exit_group
        (X86, (0, 1, 9, 59, 202, 257, 318, 46, 231)),
        (ARM, (63, 64, 222, 221, 98, 56, 278, 211, 94)),
    ],
)
def test_ordinary_calls_are_allowed(
    architecture: seccomp.Architecture, calls: tuple[int, ...]
) -> None:
    """A program can read, write, map memory and end."""
    assert {_verdict(architecture, number) for number in calls} == {ALLOW}


@pytest.mark.parametrize(
    ("architecture", "call", "only"),
    [
        # socketpair of AF_UNIX, prlimit64 of the caller, tgkill of the process itself
        (X86, 53, 1),
        (ARM, 199, 1),
        (X86, 302, 0),
        (ARM, 261, 0),
        (X86, 234, seccomp.OWN_ID),
        (ARM, 131, seccomp.OWN_ID),
    ],
)
def test_some_calls_have_one_allowed_argument(
    architecture: seccomp.Architecture, call: int, only: int
) -> None:
    """Every other family or process is refused; as in the kernel the lower half decides."""
    assert _verdict(architecture, call, only) == ALLOW
    assert _verdict(architecture, call, (1 << 32) | only) == ALLOW
    others = {0, 1, 2, 10, 16, 17, 40, 0xFFFFFFFF, (1 << 32) | 2} - {only}
    assert {_verdict(architecture, call, other) for other in others} == {EPERM}


@pytest.mark.parametrize(("architecture", "call"), [(X86, 56), (ARM, 220)])
def test_threads_are_allowed_but_no_processes_or_namespaces(
    architecture: seccomp.Architecture, call: int
) -> None:
    """Flags of a thread are allowed, those of a fork are not, nor any flag of a namespace."""
    thread, fork, spawn = 0x50F00, 0x1200011, 0x4111
    assert _verdict(architecture, call, thread) == ALLOW
    assert {_verdict(architecture, call, flags) for flags in (0, fork, spawn)} == {EPERM}
    for bit in (0x20000, *(0x2000000 << shift for shift in range(6))):
        assert _verdict(architecture, call, thread | bit) == EPERM, hex(bit)
    assert _verdict(architecture, 435) == ENOSYS


def test_other_interfaces_of_the_kernel_are_closed() -> None:
    """32 bit calls kill the process, x32 calls fail: neither has the numbers we compare."""
    assert _verdict(X86, 0, audit=_I386) == KILL_PROCESS
    assert _verdict(ARM, 0, audit=X86.audit) == KILL_PROCESS
    assert {_verdict(X86, 0x40000000 | number) for number in (0, 41, 520)} == {EPERM}


@pytest.mark.parametrize("architecture", [X86, ARM])
def test_the_kernel_accepts_the_program(architecture: seccomp.Architecture) -> None:
    """It is short enough, and no call is in two rules."""
    assert len(seccomp.program(architecture)) // 8 < 4096
    tables = (
        syscalls.DENIED,
        syscalls.ONLY_UNIX,
        syscalls.ONLY_CALLER,
        syscalls.ONLY_OWN_THREADS,
        syscalls.ONLY_NEW_THREADS,
        syscalls.UNKNOWN,
    )
    numbers = [
        numbers[architecture.column]
        for table in tables
        for numbers in table.values()
        if numbers[architecture.column] is not None
    ]
    assert len(set(numbers)) == len(numbers)
