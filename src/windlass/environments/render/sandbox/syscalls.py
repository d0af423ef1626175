"""Tables of the system calls that a confined program may not make, by number.

`seccomp` compiles them. Numbers are (x86_64, aarch64); None where an architecture has no such
call. Calls that did not exist before 2019 have the same number everywhere. Calls in none of the
tables are allowed: the filter closes ways out of the process, it does not describe a program.
"""

from __future__ import annotations

from collections.abc import Mapping

Numbers = tuple[int | None, int | None]

_NAMESPACES_AND_MOUNTS: Mapping[str, Numbers] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
}
_OTHER_PROCESSES: Mapping[str, Numbers] = {
    # A second process would outlive a killed operator: only the first one gets the signal.
    "fork": (57, None),
    "vfork": (58, None),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    # The operator has the same user, so it could be slowed down.
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # A process that leaves the group would outlive the deadline, which kills the group.
    "setsid": (112, 157),
    "setpgid": (109, 154),
}
_KERNEL: Mapping[str, Numbers] = {
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "open_by_handle_at": (304, 265),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
_LASTING_MEMORY: Mapping[str, Numbers] = {
    # Outside of the memory limit, and some of it stays when the process ends.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
}
_CONNECTIONS: Mapping[str, Numbers] = {
    # A render connects to nothing, so not to a daemon behind a path either; sending datagrams
    # needs no connection, hence `socket`.
    "socket": (41, 198),
    "connect": (42, 203),
    # An io_uring opens and uses sockets without system calls that a filter sees.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}

DENIED: Mapping[str, Numbers] = {
    **_NAMESPACES_AND_MOUNTS,
    **_OTHER_PROCESSES,
    **_KERNEL,
    **_LASTING_MEMORY,
    **_CONNECTIONS,
}
"""Always refused with EPERM."""

ONLY_UNIX: Mapping[str, Numbers] = {"socketpair": (53, 199)}
"""Refused with EPERM unless the first argument is AF_UNIX."""

ONLY_CALLER: Mapping[str, Numbers] = {"prlimit64": (302, 261)}
"""Refused with EPERM unless the first argument is 0, which is the caller."""

ONLY_OWN_THREADS: Mapping[str, Numbers] = {"tgkill": (234, 131)}
"""Refused with EPERM unless the first argument is the own process; Go preempts threads by it."""

ONLY_NEW_THREADS: Mapping[str, Numbers] = {"clone": (56, 220)}
"""Refused with EPERM where the first argument asks for a process or a namespace."""

UNKNOWN: Mapping[str, Numbers] = {"clone3": (435, 435)}
"""Answered with ENOSYS: flags behind a pointer cannot be judged, and callers fall back to clone."""
