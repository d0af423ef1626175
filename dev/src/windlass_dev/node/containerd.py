"""Client of one cluster's containerd: health, import of images, the pause image.

The pause image is the one in which every pod begins: one small program that waits. It is
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
    """Whether somebody answers on the cluster's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(str(config_files.containerd_socket(directory)))
        except OSError:
            return False
    return True


def serves_pods(now: ClusterState, directory: Path) -> bool:
    """Whether its part for the kubelet was loaded; without that it runs and is of no use."""
    return has_pod_service(_run_ctr(now, directory, "plugins", "list").stdout)


def has_pod_service(plugins: str) -> bool:
    """Whether a list of containerd's plugins has the one that serves pods, and it is well."""
    rows = [line.split() for line in plugins.splitlines() if line.strip()]
    return any(_POD_SERVICE in row and row[-1] == "ok" for row in rows)


def import_images(now: ClusterState, directory: Path, archive: Path) -> list[str]:
    """Import the images in `archive` for pods to use; their names."""
    if now.node is None:
        raise WindlassError(
            "NodeMissing",
            f"cluster {now.name!r} has no node, so it has no images; "
            f"`windlass dev down --name {now.name}`, then `up --node`",
        )
    if not archive.is_file():
        raise WindlassError("ImageMissing", f"there is no file {archive}")
    done = _run_ctr(now, directory, "images", "import", str(archive))
    if done.returncode != 0:
        raise WindlassError(
            "ImageRefused",
            f"containerd does not take it: {redactor.clean(done.stderr.strip())[:600]}. "
            "It wants an OCI or Docker archive (a tar file)",
        )
    return parse_image_names(done.stdout)


def parse_image_names(answer: str) -> list[str]:
    """The names of the images that an import tells."""
    return _UNPACKED.findall(answer)


def _run_ctr(
    now: ClusterState, directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    address = f"--address={config_files.containerd_socket(directory)}"
    command = [now.binaries[CTR], address, f"--namespace={_POD_IMAGES_NAMESPACE}", *arguments]
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
            "ContainerdSilent", f"containerd did not answer in {_CTR_SECONDS:.0f} s; try again"
        ) from slow


_NOBODY_USER = "65535:65535"


def load_pause_image(now: ClusterState, directory: Path) -> None:
    """Give the cluster's containerd the image; again changes nothing."""
    program = Path(now.binaries[tools.PAUSE.name]).read_bytes()
    file = directory / "node" / "pause.tar"
    files.write_atomically(file, build_pause_image(program, image_architecture()))
    import_images(now, directory, file)


def build_pause_image(program: bytes, machine: str) -> bytes:
    """The image of `program` as an archive."""
    layer = oci_archive.build_layer({"pause": (0o755, program)}, compress=False)
    image = oci_archive.ContainerImage(
        [layer], entrypoint=["/pause"], user=_NOBODY_USER, architecture=machine
    )
    return oci_archive.build_archive(image, config_files.PAUSE_IMAGE)


def image_architecture() -> str:
    """The machine as images call it."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    return known.get(platform.machine(), platform.machine())
