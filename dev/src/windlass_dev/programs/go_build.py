"""Builds the programs of the control plane from pinned Go modules.

One build at a time per cache; a second one waits, reports for which process, and then
finds the programs built. The modules are copied first because the installed package may
be read-only.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass_dev.programs import go_toolchain, program_cache
from windlass_dev.programs.tools import Tool, build_arguments
from windlass_dev.progress import ProgressReporter

NEEDED_BYTES = 6 * 2**30
"""Free disk space without which no build is started."""

_BUILD_SECONDS = 3600.0
_DISK_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NO_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|TLS handshake|connection re(fused|set)|proxyconnect"
    r"|module lookup disabled|network is unreachable|x509:",
    re.IGNORECASE,
)


def build_tools(
    requested: Sequence[Tool], directory: Path, progress: ProgressReporter
) -> dict[str, Path]:
    """Build those of `requested` that are not in `directory`; return the paths of all."""
    lock, activity = directory.parent / "build.lock", f"building the control plane into {directory}"
    with program_cache.lock_cache(lock, activity, progress):
        missing = [tool for tool in requested if not (directory / tool.name).is_file()]
        if missing:
            _build_all(missing, directory, progress)
    return {tool.name: directory / tool.name for tool in requested}


def _build_all(missing: Sequence[Tool], directory: Path, progress: ProgressReporter) -> None:
    needed = max(
        go_toolchain.required_version((_module_directory(tool) / "go.mod").read_text())
        for tool in missing
    )
    check_space(directory.parent)
    go = go_toolchain.provide_go(directory.parent, needed, progress)
    directory.mkdir(exist_ok=True)
    names = ", ".join(tool.name for tool in missing)
    progress.report(f"building {names} from source; this takes minutes once, then they are cached")
    for tool in missing:
        with progress.step(f"building {tool.name} {tool.version}"):
            _build_one(tool, directory, go)
    if go.is_downloaded:
        shutil.rmtree(_go_caches(directory.parent), ignore_errors=True)


def check_space(directory: Path) -> None:
    """Raise `DiskFull` if a build would fill the disk of `directory`."""
    free = shutil.disk_usage(directory).free
    if free < NEEDED_BYTES:
        raise _disk_full_error(f"{directory} has {free / 2**30:.1f} GiB free")


def _disk_full_error(detail: str) -> WindlassError:
    return WindlassError(
        "DiskFull",
        f"building the control plane requires {NEEDED_BYTES // 2**30} GiB of free disk space: "
        f"{detail}. Free some space, or set XDG_CACHE_HOME (and GOCACHE) to a larger disk, or set "
        "WINDLASS_BINARIES to a directory with finished programs.",
    )


def _build_one(tool: Tool, directory: Path, go: go_toolchain.GoToolchain) -> None:
    with program_cache.temporary_directory(directory.parent) as temporary:
        source, output = temporary / "source", temporary / tool.name
        _copy_module(tool, source)
        failpoint.reach(f"dev.build.{tool.name}.before")
        done = program_cache.run(
            [go.executable, *build_arguments(tool, str(output))],
            seconds=_BUILD_SECONDS,
            cwd=source,
            environment=_environment(go, directory.parent),
        )
        if done.returncode != 0:
            raise _build_error(tool, done.stderr)
        program_cache.sync(output)
        failpoint.reach(f"dev.build.{tool.name}.rename.before")
        output.replace(directory / tool.name)
        program_cache.sync(directory)
        failpoint.reach(f"dev.build.{tool.name}.after")


def _copy_module(tool: Tool, target: Path) -> None:
    target.mkdir()
    for file in _module_directory(tool).iterdir():
        if file.name.startswith("go.") or file.name.endswith(".go"):
            (target / file.name).write_text(file.read_text())


def _module_directory(tool: Tool) -> Traversable:
    return resources.files("windlass_dev.programs") / "toolchain" / tool.module


def _environment(go: go_toolchain.GoToolchain, cache: Path) -> dict[str, str]:
    environment = {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    if go.root is not None:
        environment["GOROOT"] = str(go.root)
    if go.is_downloaded:
        # A user without Go does not expect gigabytes of Go caches in their home afterwards.
        environment["GOFLAGS"] += " -modcacherw"
        environment["GOCACHE"] = str(_go_caches(cache) / "build")
        environment["GOMODCACHE"] = str(_go_caches(cache) / "modules")
    return environment


def _go_caches(cache: Path) -> Path:
    return cache / "go-work"


def _build_error(tool: Tool, output: str) -> WindlassError:
    tail = redactor.clean(output.strip()[-1500:], limit=1500)
    if _DISK_FULL.search(output):
        return _disk_full_error(f"the disk filled up while building {tool.name}")
    if _NO_NETWORK.search(output):
        return WindlassError(
            "NetworkUnreachable",
            f"Go could not download the sources of {tool.name}. Check the network, GOPROXY and "
            "HTTPS_PROXY, or set WINDLASS_BINARIES to a directory with finished programs. "
            f"Output of Go: {tail}",
        )
    return WindlassError("BuildFailed", f"building {tool.name} failed. Output of Go: {tail}")
