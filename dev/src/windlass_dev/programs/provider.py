"""Finds the programs of a cluster, and helm, or has them built.

In this order, and always with a report of the origin: the programs that the cluster was
created with, while they exist; a directory named by option or variable; PATH; our cache;
a build with Go. A named directory must be right, else that is an error; a program on
PATH is asked for its version and skipped when it is another one (wrappers are common
there). The cache is trusted: only finished builds have a name in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass_dev import directories
from windlass_dev.cluster import cluster_state
from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.node import containerd
from windlass_dev.node.commands import CONTAINERD, POLICIES
from windlass_dev.programs import container_runtime, go_build, tools
from windlass_dev.programs.container_runtime import ContainerRuntime
from windlass_dev.progress import ProgressReporter

BINARIES_VARIABLE = "WINDLASS_BINARIES"
ENVTEST_VARIABLE = "KUBEBUILDER_ASSETS"

_VERSION_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class NamedDirectory:
    """A directory somebody named, by which setting, and whether it must hold everything."""

    directory: Path
    setting: str
    complete: bool


@dataclass(frozen=True, slots=True)
class ToolLocation:
    """A program of the right version and where it came from."""

    path: Path
    origin: str


def provide_tools(
    explicit: Path | None,
    progress: ProgressReporter,
    wanted: Sequence[tools.Tool] = tools.CONTROL_PLANE_TOOLS,
) -> dict[str, Path]:
    """Every program of `wanted` by name; builds what is nowhere else."""
    found = _find_tools(explicit, wanted)
    missing = [tool for tool in wanted if tool.name not in found]
    for bundle in dict.fromkeys(tool.bundle for tool in missing):
        together = [tool for tool in missing if tool.bundle == bundle]
        built = go_build.build_tools(together, cache_directory(bundle), progress)
        found |= {
            name: ToolLocation(path, f"{path.parent} (built)") for name, path in built.items()
        }
    _report_origins(found, progress)
    return {tool.name: found[tool.name].path for tool in wanted}


def cache_directory(bundle: str = tools.BUNDLE) -> Path:
    """Where finished builds of exactly our versions lie."""
    return directories.cache_root() / bundle


def find_tool(tool: tools.Tool) -> Path | None:
    """A program that is there already."""
    found = _find_tools(None, (tool,)).get(tool.name)
    return found.path if found is not None else None


def _find_tools(explicit: Path | None, wanted: Sequence[tools.Tool]) -> dict[str, ToolLocation]:
    named = _named_directory(explicit)
    found = _from_named_directory(named, wanted) if named else {}
    for search in (_from_path, _from_cache):
        found |= search([tool for tool in wanted if tool.name not in found])
    return found


def _named_directory(explicit: Path | None) -> NamedDirectory | None:
    if explicit is not None:
        return NamedDirectory(explicit.absolute(), "--binaries", complete=True)
    for setting, complete in ((BINARIES_VARIABLE, True), (ENVTEST_VARIABLE, False)):
        if value := os.environ.get(setting):
            return NamedDirectory(Path(value).absolute(), setting, complete)
    return None


def _from_named_directory(
    named: NamedDirectory, wanted: Sequence[tools.Tool]
) -> dict[str, ToolLocation]:
    # An envtest directory never holds a controller manager, so there a gap is no mistake;
    # nor need any hold what only a node takes.
    foreign = [tool for tool in wanted if not tool.is_built_only]
    paths = {tool.name: named.directory / tool.name for tool in foreign}
    present = [tool for tool in foreign if paths[tool.name].exists()]
    versions = _query_versions({tool: paths[tool.name] for tool in present})
    faults = [
        f"{tool.name} is {versions[tool] or 'no program that tells its version'}, "
        f"{tool.version} is needed"
        for tool in present
        if versions[tool] != tool.version
    ]
    if named.complete:
        needed = [tool for tool in tools.CONTROL_PLANE_TOOLS if tool in wanted]
        faults += [f"{tool.name} is missing" for tool in needed if tool not in present]
    if faults:
        raise WindlassError(
            "BinariesWrong",
            f"{named.setting} names {named.directory}, but there {'; '.join(faults)}. "
            f"Put the right programs there, or unset {named.setting} to use the cache or a build.",
        )
    origin = f"{named.directory} ({named.setting})"
    return {tool.name: ToolLocation(paths[tool.name], origin) for tool in present}


def _from_path(wanted: list[tools.Tool]) -> dict[str, ToolLocation]:
    foreign = [tool for tool in wanted if not tool.is_built_only]
    paths = {tool: Path(hit) for tool in foreign if (hit := shutil.which(tool.name))}
    versions = _query_versions(paths)
    return {
        tool.name: ToolLocation(path.absolute(), f"{path.parent} (PATH)")
        for tool, path in paths.items()
        if versions[tool] == tool.version
    }


def _from_cache(wanted: list[tools.Tool]) -> dict[str, ToolLocation]:
    paths = [cache_directory(tool.bundle) / tool.name for tool in wanted]
    return {
        path.name: ToolLocation(path, f"{path.parent} (cache)") for path in paths if path.is_file()
    }


def _query_versions(paths: dict[tools.Tool, Path]) -> dict[tools.Tool, str | None]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = pool.map(lambda item: _query_version(item[0], item[1]), paths.items())
        return dict(zip(paths, answers, strict=True))


def _query_version(tool: tools.Tool, path: Path) -> str | None:
    try:
        answer = subprocess.run(
            [path, *tool.version_arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tools.parse_version(answer.stdout.decode("utf-8", "replace"))


def _report_origins(found: dict[str, ToolLocation], progress: ProgressReporter) -> None:
    by_origin: dict[str, list[str]] = {}
    for name, one in found.items():
        by_origin.setdefault(one.origin, []).append(name)
    for origin, names in by_origin.items():
        progress.report(f"{', '.join(names)} from {origin}")


@dataclass(frozen=True, slots=True)
class ClusterPrograms:
    """Paths by name; with a node also what runs containers."""

    binaries: Mapping[str, str]
    runtime: ContainerRuntime | None

    def apply_to(self, now: ClusterState) -> ClusterState:
        """The state of a cluster that runs these."""
        if now.node is None or self.runtime is None:
            return replace(now, binaries=self.binaries)
        path, plugins = self.runtime.path, str(self.runtime.plugins)
        node = replace(now.node, path=path, plugins=plugins)
        return replace(now, binaries=self.binaries, node=node)


def provide_for_cluster(
    directory: Path, explicit: Path | None, progress: ProgressReporter, *, node: bool
) -> ClusterPrograms:
    """The programs for the cluster in `directory`, which may not be there yet."""
    known = cluster_state.load_state(directory)
    node = node or (known is not None and known.node is not None)
    if known and explicit is None and _all_exist(known):
        return _programs_of(known)
    return provide_programs(explicit, progress, node=node)


def provide_programs(
    explicit: Path | None, progress: ProgressReporter, *, node: bool
) -> ClusterPrograms:
    """The programs for any cluster; what is nowhere is built or unpacked."""
    wanted = (*tools.CONTROL_PLANE_TOOLS, *tools.NODE_TOOLS) if node else tools.CONTROL_PLANE_TOOLS
    found = {name: str(path) for name, path in provide_tools(explicit, progress, wanted).items()}
    if not node:
        return ClusterPrograms(found, None)
    located = container_runtime.provide_runtime(progress)
    found |= {CONTAINERD: str(located.containerd), containerd.CTR: str(located.client)}
    found |= {POLICIES: sys.executable}
    return ClusterPrograms(found, located)


def _all_exist(known: ClusterState) -> bool:
    if known.node and POLICIES not in known.binaries:
        return False
    plugins = [f"{known.node.plugins}/ptp"] if known.node else []
    return all(Path(path).is_file() for path in [*known.binaries.values(), *plugins])


def _programs_of(known: ClusterState) -> ClusterPrograms:
    if known.node is None:
        return ClusterPrograms(known.binaries, None)
    located = ContainerRuntime(
        containerd=Path(known.binaries[CONTAINERD]),
        client=Path(known.binaries[containerd.CTR]),
        plugins=Path(known.node.plugins),
        path=known.node.path,
    )
    return ClusterPrograms(known.binaries, located)
