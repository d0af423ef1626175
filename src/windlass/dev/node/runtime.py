"""Finds what runs containers: containerd, runc, pod network plugins, iptables.

What the machine has is taken, else Debian packages out of our cache or the archive;
always saying which. Everything is run with configuration and data of the cluster's own,
so a containerd that serves somebody else on this machine is not disturbed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass.dev.node import packages, system
from windlass.dev.progress import Progress

_PLUGIN_PLACES = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")


@dataclass(frozen=True, slots=True)
class Part:
    """Programs that come together, and the packages that hold them."""

    programs: tuple[str, ...]
    packages: tuple[str, ...]


PARTS: Mapping[str, Part] = {
    "containerd": Part(("containerd", "ctr", "containerd-shim-runc-v2"), ("containerd",)),
    "runc": Part(("runc",), ("runc",)),
    "iptables": Part(("iptables", "iptables-save", "iptables-restore"), ("iptables",)),
}
PLUGINS = Part(("ptp", "host-local", "portmap", "loopback"), ("containernetworking-plugins",))


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where the programs are: containerd and its client, the plugins, and a PATH for all."""

    containerd: Path
    client: Path
    plugins: Path
    path: str


def locate(progress: Progress) -> Runtime:
    """Every part, downloaded if it is nowhere."""
    found = [_part(name, part, progress) for name, part in PARTS.items()]
    places = [str(one) for one in found if one is not None]
    path = os.pathsep.join([*places, system.path()])
    return Runtime(
        containerd=_program("containerd", path),
        client=_program("ctr", path),
        plugins=_plugins(progress),
        path=path,
    )


def is_complete(directory: Path, programs: tuple[str, ...]) -> bool:
    """Whether `directory` holds all of `programs`."""
    return all(os.access(directory / program, os.X_OK) for program in programs)


def _part(name: str, part: Part, progress: Progress) -> Path | None:
    """The directory of a part's programs, None where the system has them all."""
    hits = [shutil.which(program, path=system.path()) for program in part.programs]
    if all(hits):
        progress.say(f"{name} from {Path(hits[0] or '').parent} (PATH)")
        return None
    return _from_packages(name, part, progress) / "run"


def _plugins(progress: Progress) -> Path:
    for place in map(Path, _PLUGIN_PLACES):
        if is_complete(place, PLUGINS.programs):
            progress.say(f"pod network plugins from {place}")
            return place
    return _from_packages("cni", PLUGINS, progress) / "usr/lib/cni"


def _from_packages(name: str, part: Part, progress: Progress) -> Path:
    found = packages.cached(name)
    origin = "cache" if found else "downloaded"
    directory = found or packages.unpacked(name, part.packages, progress)
    progress.say(f"{name} from {directory} (Debian package, {origin})")
    return directory


def _program(name: str, path: str) -> Path:
    hit = shutil.which(name, path=path)
    assert hit is not None, f"{name} was located before"
    return Path(hit)
