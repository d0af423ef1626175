"""Finds what runs containers: containerd, runc, CNI plugins, iptables.

What the machine has is taken, else Debian packages out of our cache or the archive;
always with a report of the origin. Everything runs with configuration and data of the
cluster's own, so another containerd on this machine is not disturbed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass_dev.node import system
from windlass_dev.programs import debian_packages
from windlass_dev.progress import ProgressReporter

_PLUGIN_DIRECTORIES = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")


@dataclass(frozen=True, slots=True)
class ProgramSet:
    """Programs that come together, and the packages that hold them."""

    programs: tuple[str, ...]
    packages: tuple[str, ...]


PROGRAM_SETS: Mapping[str, ProgramSet] = {
    "containerd": ProgramSet(("containerd", "ctr", "containerd-shim-runc-v2"), ("containerd",)),
    "runc": ProgramSet(("runc",), ("runc",)),
    "iptables": ProgramSet(("iptables", "iptables-save", "iptables-restore"), ("iptables",)),
}
CNI_PLUGINS = ProgramSet(
    ("ptp", "host-local", "portmap", "loopback"), ("containernetworking-plugins",)
)


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """Where the programs are: containerd and its client, the plugins, and a PATH for all."""

    containerd: Path
    client: Path
    plugins: Path
    path: str


def provide_runtime(progress: ProgressReporter) -> ContainerRuntime:
    """Every part, downloaded if it is nowhere."""
    found = [_provide_set(name, part, progress) for name, part in PROGRAM_SETS.items()]
    places = [str(one) for one in found if one is not None]
    path = os.pathsep.join([*places, system.search_path()])
    return ContainerRuntime(
        containerd=_find_program("containerd", path),
        client=_find_program("ctr", path),
        plugins=_provide_plugins(progress),
        path=path,
    )


def is_complete(directory: Path, programs: tuple[str, ...]) -> bool:
    """Whether `directory` holds all of `programs`."""
    return all(os.access(directory / program, os.X_OK) for program in programs)


def _provide_set(name: str, part: ProgramSet, progress: ProgressReporter) -> Path | None:
    """The directory of a part's programs, None where the system has them all."""
    hits = [shutil.which(program, path=system.search_path()) for program in part.programs]
    if all(hits):
        progress.report(f"{name} from {Path(hits[0] or '').parent} (PATH)")
        return None
    return _from_packages(name, part, progress) / "run"


def _provide_plugins(progress: ProgressReporter) -> Path:
    for place in map(Path, _PLUGIN_DIRECTORIES):
        if is_complete(place, CNI_PLUGINS.programs):
            progress.report(f"pod network plugins from {place}")
            return place
    return _from_packages("cni", CNI_PLUGINS, progress) / "usr/lib/cni"


def _from_packages(name: str, part: ProgramSet, progress: ProgressReporter) -> Path:
    found = debian_packages.find_unpacked(name)
    origin = "cache" if found else "downloaded"
    directory = found or debian_packages.provide_packages(name, part.packages, progress)
    progress.report(f"{name} from {directory} (Debian package, {origin})")
    return directory


def _find_program(name: str, path: str) -> Path:
    hit = shutil.which(name, path=path)
    assert hit is not None, f"{name} was located before"
    return Path(hit)
