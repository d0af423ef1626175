"""Pods that run this very windlass, without an image of it.

A bare image with nothing in it gets the machine's own programs, the interpreter and this
installation mounted, read-only. So what runs in the pod is what is being worked on, and
trying a change needs no build. For the desk only: pods that mount the machine's
directories have no place in a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import windlass
from windlass.base import atomic
from windlass.dev import state
from windlass.dev.desk import Desk
from windlass.dev.node import containerd, sandbox
from windlass.objects.json import Object
from windlass.oci import archive

NAME = "windlass.dev/bare:1"

_SYSTEM = ("/bin", "/etc", "/lib", "/lib64", "/usr")


def load(desk: Desk) -> None:
    """Give the node the bare image; again changes nothing."""
    now = state.load(desk.directory)
    assert now is not None, "a desk has a state"
    layer = archive.layer({}, directories={"tmp": 0o1777}, compress=False)
    image = archive.Image([layer], architecture=sandbox.architecture())
    file = desk.directory / "node" / "bare.tar"
    atomic.write_bytes(file, archive.archive(image, NAME))
    containerd.load(now, desk.directory, file)


def command(*arguments: str) -> list[str]:
    """The command line of windlass inside such a pod."""
    return [str(Path(sys.prefix) / "bin" / "python"), "-m", "windlass", *arguments]


def volumes() -> list[Object]:
    """The volumes of a pod that runs windlass."""
    return [
        {"name": name, "hostPath": {"path": path, "type": "Directory"}}
        for name, path in _places().items()
    ]


def volume_mounts() -> list[Object]:
    """Where they stand in a container: where they stand on the machine."""
    return [{"name": name, "mountPath": path, "readOnly": True} for name, path in _places().items()]


def _places() -> dict[str, str]:
    """Every directory that this process itself was started from, none inside another."""
    wanted = [
        *_SYSTEM,
        sys.base_prefix,
        sys.prefix,
        str(Path(windlass.__file__).resolve().parents[1]),
    ]
    return {f"own-{number}": path for number, path in enumerate(outermost(wanted))}


def outermost(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that exist and lie in none of the others."""
    found = sorted({path for path in paths if Path(path).is_dir()})
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def container(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Object:
    """A container that runs windlass with some arguments."""
    return {
        "name": name,
        "image": NAME,
        "imagePullPolicy": "Never",
        "command": command(*arguments),
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": volume_mounts(),
    }
