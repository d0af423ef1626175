"""The image in which every pod begins: one small program that waits.

It is made here from a program of our own, because a desk has no registry to pull from.
"""

from __future__ import annotations

import platform
from pathlib import Path

from windlass.base import atomic
from windlass.dev import tools
from windlass.dev.node import configuration, containerd
from windlass.dev.state import State
from windlass.oci import archive

_NOBODY = "65535:65535"


def load(now: State, directory: Path) -> None:
    """Give the cluster's containerd the image; again changes nothing."""
    program = Path(now.binaries[tools.PAUSE.name]).read_bytes()
    file = directory / "node" / "pause.tar"
    atomic.write_bytes(file, packed(program, architecture()))
    containerd.load(now, directory, file)


def packed(program: bytes, machine: str) -> bytes:
    """The image of `program` as an archive."""
    layer = archive.layer({"pause": (0o755, program)}, compress=False)
    image = archive.Image([layer], entrypoint=["/pause"], user=_NOBODY, architecture=machine)
    return archive.archive(image, configuration.SANDBOX_IMAGE)


def architecture() -> str:
    """The machine as images call it."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    return known.get(platform.machine(), platform.machine())
