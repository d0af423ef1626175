"""Directories of local clusters: state per cluster, a cache per windlass version.

Both follow the XDG variables; a relative value there is ignored, as XDG asks. A
cluster's directory is also its signature: every process of a cluster has it on its
command line, which is how `down` finds processes that no file records.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from windlass import __version__
from windlass.base.errors import WindlassError

DEFAULT_NAME = "dev"

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check_name(name: str) -> None:
    """Refuse a name that could not be a directory, a context name and a label at once."""
    if not _NAME.fullmatch(name):
        raise WindlassError(
            "NameInvalid",
            f"invalid cluster name {name!r}: use 1 to 40 lowercase letters, digits and dashes, "
            "starting and ending with a letter or digit",
        )


def state_root() -> Path:
    """The directory that holds one directory per cluster."""
    return _xdg_directory("XDG_STATE_HOME", ".local/state") / "windlass" / "dev"


def cache_root() -> Path:
    """The directory of programs that were built or downloaded for this version of windlass."""
    return _xdg_directory("XDG_CACHE_HOME", ".cache") / "windlass" / __version__


def cluster_directory(name: str) -> Path:
    """The state directory of the cluster `name`."""
    check_name(name)
    return state_root() / name


def lock_file(name: str) -> Path:
    """The lock file that serializes `up` and `down` of the cluster `name`."""
    check_name(name)
    return state_root() / f"{name}.lock"


def cluster_names() -> list[str]:
    """The clusters that have a state directory, running or not."""
    try:
        entries = sorted(state_root().iterdir())
    except FileNotFoundError:
        return []
    return [entry.name for entry in entries if _NAME.fullmatch(entry.name) and entry.is_dir()]


def ensure_private(path: Path) -> None:
    """Create `path` as a directory that only its owner may enter."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)


def _xdg_directory(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    return Path(value).resolve() if value.startswith("/") else (Path.home() / fallback).resolve()
