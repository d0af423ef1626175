"""Talks to the containerd of one cluster: whether it serves, and gives it images."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass.dev.node import configuration
from windlass.dev.state import State

CLIENT = "ctr"

_POD_SERVICE = "cri"
_IMAGES_OF_PODS = "k8s.io"
_UNPACKED = re.compile(r"^unpacking (\S+) \(sha256:[0-9a-f]{64}\)", re.MULTILINE)
_SECONDS = 300.0


def is_serving(directory: Path) -> bool:
    """Whether somebody answers on the cluster's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(str(configuration.socket(directory)))
        except OSError:
            return False
    return True


def serves_pods(now: State, directory: Path) -> bool:
    """Whether its part for the kubelet was loaded; without that it runs and is of no use."""
    return is_loaded(_client(now, directory, "plugins", "list").stdout)


def is_loaded(plugins: str) -> bool:
    """Whether a list of containerd's plugins has the one that serves pods, and it is well."""
    rows = [line.split() for line in plugins.splitlines() if line.strip()]
    return any(_POD_SERVICE in row and row[-1] == "ok" for row in rows)


def load(now: State, directory: Path, archive: Path) -> list[str]:
    """Import the images in `archive` for pods to use; their names."""
    if now.node is None:
        raise WindlassError(
            "NodeMissing",
            f"cluster {now.name!r} has no node, so it has no images; "
            f"`windlass dev down --name {now.name}`, then `up --node`",
        )
    if not archive.is_file():
        raise WindlassError("ImageMissing", f"there is no file {archive}")
    done = _client(now, directory, "images", "import", str(archive))
    if done.returncode != 0:
        raise WindlassError(
            "ImageRefused",
            f"containerd does not take it: {redactor.clean(done.stderr.strip())[:600]}. "
            "It wants an OCI or Docker archive (a tar file)",
        )
    return names_in(done.stdout)


def names_in(answer: str) -> list[str]:
    """The names of the images that an import tells."""
    return _UNPACKED.findall(answer)


def _client(now: State, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    address = f"--address={configuration.socket(directory)}"
    command = [now.binaries[CLIENT], address, f"--namespace={_IMAGES_OF_PODS}", *arguments]
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise WindlassError(
            "ContainerdSilent", f"containerd did not answer in {_SECONDS:.0f} s; try again"
        ) from slow
