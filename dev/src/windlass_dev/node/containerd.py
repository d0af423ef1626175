"""Client of one cluster's containerd: health, import of images, the pause image.

The pause image holds the namespaces of every pod: one small program that waits. It is
built here from a program of our own, because a local cluster has no registry to pull from.
"""

from __future__ import annotations

import platform
import re
import socket
import subprocess
from pathlib import Path

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.node import config_files, oci_archive
from windlass_dev.programs import tools

CTR = "ctr"

_POD_SERVICE = "cri"
_POD_IMAGES_NAMESPACE = "k8s.io"
_UNPACKED = re.compile(r"^unpacking (\S+) \(sha256:[0-9a-f]{64}\)", re.MULTILINE)
_CTR_SECONDS = 300.0


def is_serving(directory: Path) -> bool:
    """Whether containerd accepts connections on the cluster's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(config_files.containerd_socket(directory)))
        except OSError:
            return False
    return True


def serves_pods(state: ClusterState, directory: Path) -> bool:
    """Whether the CRI plugin was loaded; containerd runs without it, but serves no kubelet."""
    return has_pod_service(_run_ctr(state, directory, "plugins", "list").stdout)


def has_pod_service(plugins: str) -> bool:
    """Whether the output of `ctr plugins list` has the CRI plugin with status ok."""
    rows = [line.split() for line in plugins.splitlines() if line.strip()]
    return any(_POD_SERVICE in row and row[-1] == "ok" for row in rows)


def import_images(state: ClusterState, directory: Path, archive: Path) -> list[str]:
    """Import the images in `archive` for pods to use; return their names."""
    if state.node is None:
        raise WindlassError(
            "NodeMissing",
            f"cluster {state.name!r} has no node to import images into; recreate it with "
            f"`windlass dev down --name {state.name}`, then `up --node`",
        )
    if not archive.is_file():
        raise WindlassError("ImageMissing", f"image archive {archive} not found")
    done = _run_ctr(state, directory, "images", "import", str(archive))
    if done.returncode != 0:
        raise WindlassError(
            "ImageRefused",
            f"containerd could not import {archive}, which must be an OCI or Docker archive "
            f"(a tar file): {redactor.clean(done.stderr.strip())[:600]}",
        )
    return parse_image_names(done.stdout)


def parse_image_names(output: str) -> list[str]:
    """The names of the images in the output of `ctr images import`."""
    return _UNPACKED.findall(output)


def _run_ctr(
    state: ClusterState, directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    address = f"--address={config_files.containerd_socket(directory)}"
    command = [state.binaries[CTR], address, f"--namespace={_POD_IMAGES_NAMESPACE}", *arguments]
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CTR_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise WindlassError(
            "ContainerdSilent", f"containerd did not respond within {_CTR_SECONDS:.0f} s; try again"
        ) from slow


_NOBODY_USER = "65535:65535"


def load_pause_image(state: ClusterState, directory: Path) -> None:
    """Import the pause image; repeating it changes nothing."""
    program = Path(state.binaries[tools.PAUSE.name]).read_bytes()
    file = directory / "node" / "pause.tar"
    files.write_atomically(file, build_pause_image(program, image_architecture()))
    import_images(state, directory, file)


def build_pause_image(program: bytes, machine: str) -> bytes:
    """The pause image with `program`, as an OCI archive."""
    layer = oci_archive.build_layer({"pause": (0o755, program)}, compress=False)
    image = oci_archive.ContainerImage(
        [layer], entrypoint=["/pause"], user=_NOBODY_USER, architecture=machine
    )
    return oci_archive.build_archive(image, config_files.PAUSE_IMAGE)


def image_architecture() -> str:
    """The architecture of this machine as OCI images name it."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    return names.get(platform.machine(), platform.machine())
