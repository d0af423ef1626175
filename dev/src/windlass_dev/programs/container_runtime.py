"""Provides the container runtime: containerd, runc, CNI plugins, iptables.

Programs of the machine are used where they exist, else Debian packages from our cache or
the archive; the origin is always reported. Everything runs with configuration and data of
the cluster's own, so another containerd on this machine is not disturbed.
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
    """Programs that are provided together, and the Debian packages that contain them."""

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
    """The paths of the runtime's programs."""

    containerd: Path
    client: Path
    """`ctr`."""
    plugins: Path
    """The directory of the CNI plugins."""
    path: str
    """A PATH on which every program of the runtime is found."""


def provide_runtime(progress: ProgressReporter) -> ContainerRuntime:
    """Locate every program; download those that this machine does not have."""
    directories = [
        _provide_set(name, program_set, progress) for name, program_set in PROGRAM_SETS.items()
    ]
    search = [str(directory) for directory in directories if directory is not None]
    path = os.pathsep.join([*search, system.search_path()])
    return ContainerRuntime(
        containerd=_find_program("containerd", path),
        client=_find_program("ctr", path),
        plugins=_provide_plugins(progress),
        path=path,
    )


def is_complete(directory: Path, programs: tuple[str, ...]) -> bool:
    """Whether `directory` contains all of `programs`."""
    return all(os.access(directory / program, os.X_OK) for program in programs)


def _provide_set(name: str, program_set: ProgramSet, progress: ProgressReporter) -> Path | None:
    """The directory of a set's programs; None if all of them are on PATH."""
    paths = [shutil.which(program, path=system.search_path()) for program in program_set.programs]
    if all(paths):
        progress.report(f"{name} from {Path(paths[0] or '').parent} (PATH)")
        return None
    return _from_packages(name, program_set, progress) / "run"


def _provide_plugins(progress: ProgressReporter) -> Path:
    for directory in map(Path, _PLUGIN_DIRECTORIES):
        if is_complete(directory, CNI_PLUGINS.programs):
            progress.report(f"pod network plugins from {directory}")
            return directory
    return _from_packages("cni", CNI_PLUGINS, progress) / "usr/lib/cni"


def _from_packages(name: str, program_set: ProgramSet, progress: ProgressReporter) -> Path:
    cached = debian_packages.find_unpacked(name)
    origin = "cache" if cached else "downloaded"
    directory = cached or debian_packages.provide_packages(name, program_set.packages, progress)
    progress.report(f"{name} from {directory} (Debian package, {origin})")
    return directory


def _find_program(name: str, path: str) -> Path:
    located = shutil.which(name, path=path)
    assert located is not None, f"{name} was located before"
    return Path(located)
