"""Parsing the table of mounts."""

from __future__ import annotations

from pathlib import Path

from windlass_dev.node import system

TABLE = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:4 net:[4026532177] /state/a\\040b/net rw - nsfs nsfs rw
31 22 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""


def test_points_kinds_and_options_are_read() -> None:
    """Also with optional fields, without them, and with a space in a path."""
    root, held, memory = system.parse_mounts(TABLE)
    assert (root.point, root.kind) == (Path("/"), "ext4")
    assert (held.point, held.kind) == (Path("/state/a b/net"), "nsfs")
    assert memory.options == {"rw", "memory"}
