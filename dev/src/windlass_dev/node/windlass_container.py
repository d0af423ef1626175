"""Containers that run this installation of windlass by mounts, without an image of it.

A container of an empty image gets the machine's own programs, the interpreter and this
installation mounted, read-only. So the pod runs the code that is being edited, and trying
a change needs no build. For local clusters only: pods that mount directories of the
machine do not belong into a real cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import windlass
import windlass_dev
from windlass.base import files
from windlass.objects.names import Object
from windlass_dev.cluster import cluster_state
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node import containerd, oci_archive

IMAGE_NAME = "windlass.dev/bare:1"

_SYSTEM_DIRECTORIES = ("/bin", "/etc", "/lib", "/lib64", "/usr")


def load_image(cluster: LocalCluster) -> None:
    """Import the empty image into the cluster's node; repeating it changes nothing."""
    state = cluster_state.load_state(cluster.directory)
    assert state is not None, "a LocalCluster is read from a state"
    layer = oci_archive.build_layer({}, directories={"tmp": 0o1777}, compress=False)
    image = oci_archive.ContainerImage([layer], architecture=containerd.image_architecture())
    file = cluster.directory / "node" / "bare.tar"
    files.write_atomically(file, oci_archive.build_archive(image, IMAGE_NAME))
    containerd.import_images(state, cluster.directory, file)


def windlass_command(*arguments: str) -> list[str]:
    """The command line of windlass inside such a pod."""
    return [str(Path(sys.prefix) / "bin" / "python"), "-m", "windlass", *arguments]


def volumes() -> list[Object]:
    """The volumes of a pod that runs windlass."""
    return [
        {"name": name, "hostPath": {"path": path, "type": "Directory"}}
        for name, path in _mounted_directories().items()
    ]


def volume_mounts() -> list[Object]:
    """The mounts of those volumes in a container, at their paths on the machine."""
    return [
        {"name": name, "mountPath": path, "readOnly": True}
        for name, path in _mounted_directories().items()
    ]


def _mounted_directories() -> dict[str, str]:
    """Every directory that running windlass needs, by volume name, none inside another."""
    directories = [
        *_SYSTEM_DIRECTORIES,
        sys.base_prefix,
        sys.prefix,
        # Of an editable installation these are src and dev/src of the checkout.
        *(
            str(Path(str(package.__file__)).resolve().parents[1])
            for package in (windlass, windlass_dev)
        ),
    ]
    return {f"own-{number}": path for number, path in enumerate(outermost_directories(directories))}


def outermost_directories(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that exist and lie in none of the others."""
    existing = sorted({path for path in paths if Path(path).is_dir()})
    return [
        path for path in existing if not any(path.startswith(f"{other}/") for other in existing)
    ]


def build_container(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Object:
    """A container that runs `windlass` with `arguments`."""
    return {
        "name": name,
        "image": IMAGE_NAME,
        "imagePullPolicy": "Never",
        "command": windlass_command(*arguments),
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": volume_mounts(),
    }
