"""Finds the programs of the control plane, and helm, or has them built.

In this order, and always saying which: a directory somebody named, PATH, our cache, a
build with Go. What somebody named must be right, else that is an error; what merely
lies on PATH is asked for its version and passed over when it is another one (wrappers
are common there). The cache is trusted: only finished builds have a name in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.dev import build, places, tools
from windlass.dev.progress import Progress

SETTING = "WINDLASS_BINARIES"
ENVTEST_SETTING = "KUBEBUILDER_ASSETS"

_ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Named:
    """A directory somebody named, by which setting, and whether it must hold everything."""

    directory: Path
    setting: str
    complete: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A program of the right version and where it came from."""

    path: Path
    origin: str


def locate(
    explicit: Path | None, progress: Progress, wanted: Sequence[tools.Tool] = tools.TOOLS
) -> dict[str, Path]:
    """Every program of `wanted` by name; builds what is nowhere else."""
    found = _at_hand(explicit, wanted)
    missing = [tool for tool in wanted if tool.name not in found]
    for bundle in dict.fromkeys(tool.bundle for tool in missing):
        together = [tool for tool in missing if tool.bundle == bundle]
        built = build.build(together, cached_directory(bundle), progress)
        found |= {name: Found(path, f"{path.parent} (built)") for name, path in built.items()}
    _tell(found, progress)
    return {tool.name: found[tool.name].path for tool in wanted}


def cached_directory(bundle: str = tools.BUNDLE) -> Path:
    """Where finished builds of exactly our versions lie."""
    return places.cache_root() / bundle


def at_hand(tool: tools.Tool) -> Path | None:
    """A program that is there already."""
    found = _at_hand(None, (tool,)).get(tool.name)
    return found.path if found is not None else None


def _at_hand(explicit: Path | None, wanted: Sequence[tools.Tool]) -> dict[str, Found]:
    named = _named(explicit)
    found = _from_named(named, wanted) if named else {}
    for search in (_from_path, _from_cache):
        found |= search([tool for tool in wanted if tool.name not in found])
    return found


def _named(explicit: Path | None) -> Named | None:
    if explicit is not None:
        return Named(explicit.absolute(), "--binaries", complete=True)
    for setting, complete in ((SETTING, True), (ENVTEST_SETTING, False)):
        if value := os.environ.get(setting):
            return Named(Path(value).absolute(), setting, complete)
    return None


def _from_named(named: Named, wanted: Sequence[tools.Tool]) -> dict[str, Found]:
    # An envtest directory never holds a controller manager, so there a gap is no mistake;
    # nor need any hold what only a node takes.
    foreign = [tool for tool in wanted if not tool.is_our_own]
    paths = {tool.name: named.directory / tool.name for tool in foreign}
    present = [tool for tool in foreign if paths[tool.name].exists()]
    versions = _versions({tool: paths[tool.name] for tool in present})
    faults = [
        f"{tool.name} is {versions[tool] or 'no program that tells its version'}, "
        f"{tool.version} is needed"
        for tool in present
        if versions[tool] != tool.version
    ]
    if named.complete:
        needed = [tool for tool in tools.TOOLS if tool in wanted]
        faults += [f"{tool.name} is missing" for tool in needed if tool not in present]
    if faults:
        raise WindlassError(
            "BinariesWrong",
            f"{named.setting} names {named.directory}, but there {'; '.join(faults)}. "
            f"Put the right programs there, or unset {named.setting} to use the cache or a build.",
        )
    origin = f"{named.directory} ({named.setting})"
    return {tool.name: Found(paths[tool.name], origin) for tool in present}


def _from_path(wanted: list[tools.Tool]) -> dict[str, Found]:
    foreign = [tool for tool in wanted if not tool.is_our_own]
    paths = {tool: Path(hit) for tool in foreign if (hit := shutil.which(tool.name))}
    versions = _versions(paths)
    return {
        tool.name: Found(path.absolute(), f"{path.parent} (PATH)")
        for tool, path in paths.items()
        if versions[tool] == tool.version
    }


def _from_cache(wanted: list[tools.Tool]) -> dict[str, Found]:
    paths = [cached_directory(tool.bundle) / tool.name for tool in wanted]
    return {path.name: Found(path, f"{path.parent} (cache)") for path in paths if path.is_file()}


def _versions(paths: dict[tools.Tool, Path]) -> dict[tools.Tool, str | None]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = pool.map(lambda item: _version(item[0], item[1]), paths.items())
        return dict(zip(paths, answers, strict=True))


def _version(tool: tools.Tool, path: Path) -> str | None:
    try:
        answer = subprocess.run(
            [path, *tool.version_arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tools.version_in(answer.stdout.decode("utf-8", "replace"))


def _tell(found: dict[str, Found], progress: Progress) -> None:
    by_origin: dict[str, list[str]] = {}
    for name, one in found.items():
        by_origin.setdefault(one.origin, []).append(name)
    for origin, names in by_origin.items():
        progress.say(f"{', '.join(names)} from {origin}")
