"""Provides the programs of a cluster, and helm: finds them or has them built.

In this order, and always with a report of the origin: the programs that the cluster was
created with, while they exist; a directory named by option or variable; PATH; our cache;
a build with Go. A named directory must contain the right versions, else that is an error;
a program on PATH is run for its version and skipped if that differs (wrappers are common
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
    """A directory of programs that the user named."""

    directory: Path
    setting: str
    """The option or variable that named it, for messages."""
    complete: bool
    """Whether it must contain every program of a control plane."""


@dataclass(frozen=True, slots=True)
class ToolLocation:
    """The path of a program of the right version, and its origin for the progress report."""

    path: Path
    origin: str


def provide_tools(
    explicit: Path | None,
    progress: ProgressReporter,
    requested: Sequence[tools.Tool] = tools.CONTROL_PLANE_TOOLS,
) -> dict[str, Path]:
    """The path of every program of `requested` by name; builds those found nowhere."""
    located = _find_tools(explicit, requested)
    missing = [tool for tool in requested if tool.name not in located]
    for bundle in dict.fromkeys(tool.bundle for tool in missing):
        together = [tool for tool in missing if tool.bundle == bundle]
        built = go_build.build_tools(together, cache_directory(bundle), progress)
        located |= {
            name: ToolLocation(path, f"{path.parent} (built)") for name, path in built.items()
        }
    _report_origins(located, progress)
    return {tool.name: located[tool.name].path for tool in requested}


def cache_directory(bundle: str = tools.BUNDLE) -> Path:
    """The directory of finished builds of exactly our versions."""
    return directories.cache_root() / bundle


def find_tool(tool: tools.Tool) -> Path | None:
    """The path of a program that exists already; None if it would have to be built."""
    location = _find_tools(None, (tool,)).get(tool.name)
    return location.path if location is not None else None


def _find_tools(explicit: Path | None, requested: Sequence[tools.Tool]) -> dict[str, ToolLocation]:
    named = _named_directory(explicit)
    located = _from_named_directory(named, requested) if named else {}
    for search in (_from_path, _from_cache):
        located |= search([tool for tool in requested if tool.name not in located])
    return located


def _named_directory(explicit: Path | None) -> NamedDirectory | None:
    if explicit is not None:
        return NamedDirectory(explicit.absolute(), "--binaries", complete=True)
    for setting, complete in ((BINARIES_VARIABLE, True), (ENVTEST_VARIABLE, False)):
        if value := os.environ.get(setting):
            return NamedDirectory(Path(value).absolute(), setting, complete)
    return None


def _from_named_directory(
    named: NamedDirectory, requested: Sequence[tools.Tool]
) -> dict[str, ToolLocation]:
    # An envtest directory never contains a controller manager, so there a gap is not an
    # error; nor need any directory contain what only a node uses.
    candidates = [tool for tool in requested if not tool.is_built_only]
    paths = {tool.name: named.directory / tool.name for tool in candidates}
    present = [tool for tool in candidates if paths[tool.name].exists()]
    versions = _query_versions({tool: paths[tool.name] for tool in present})
    faults = [
        f"{tool.name} has version {versions[tool] or 'unknown'}, {tool.version} is required"
        for tool in present
        if versions[tool] != tool.version
    ]
    if named.complete:
        needed = [tool for tool in tools.CONTROL_PLANE_TOOLS if tool in requested]
        faults += [f"{tool.name} is missing" for tool in needed if tool not in present]
    if faults:
        raise WindlassError(
            "BinariesWrong",
            f"{named.directory}, set by {named.setting}: {'; '.join(faults)}. Put the required "
            f"versions there, or unset {named.setting} to use the cache or a build.",
        )
    origin = f"{named.directory} ({named.setting})"
    return {tool.name: ToolLocation(paths[tool.name], origin) for tool in present}


def _from_path(requested: list[tools.Tool]) -> dict[str, ToolLocation]:
    candidates = [tool for tool in requested if not tool.is_built_only]
    paths = {tool: Path(located) for tool in candidates if (located := shutil.which(tool.name))}
    versions = _query_versions(paths)
    return {
        tool.name: ToolLocation(path.absolute(), f"{path.parent} (PATH)")
        for tool, path in paths.items()
        if versions[tool] == tool.version
    }


def _from_cache(requested: list[tools.Tool]) -> dict[str, ToolLocation]:
    paths = [cache_directory(tool.bundle) / tool.name for tool in requested]
    return {
        path.name: ToolLocation(path, f"{path.parent} (cache)") for path in paths if path.is_file()
    }


def _query_versions(paths: dict[tools.Tool, Path]) -> dict[tools.Tool, str | None]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        versions = pool.map(lambda item: _query_version(item[0], item[1]), paths.items())
        return dict(zip(paths, versions, strict=True))


def _query_version(tool: tools.Tool, path: Path) -> str | None:
    try:
        result = subprocess.run(
            [path, *tool.version_arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tools.parse_version(result.stdout.decode("utf-8", "replace"))


def _report_origins(located: dict[str, ToolLocation], progress: ProgressReporter) -> None:
    by_origin: dict[str, list[str]] = {}
    for name, location in located.items():
        by_origin.setdefault(location.origin, []).append(name)
    for origin, names in by_origin.items():
        progress.report(f"{', '.join(names)} from {origin}")


@dataclass(frozen=True, slots=True)
class ClusterPrograms:
    """The programs of one cluster."""

    binaries: Mapping[str, str]
    """Path by component or program."""
    runtime: ContainerRuntime | None
    """None without a node."""

    def apply_to(self, state: ClusterState) -> ClusterState:
        """`state` with these programs."""
        if state.node is None or self.runtime is None:
            return replace(state, binaries=self.binaries)
        path, plugins = self.runtime.path, str(self.runtime.plugins)
        node = replace(state.node, path=path, plugins=plugins)
        return replace(state, binaries=self.binaries, node=node)


def provide_for_cluster(
    directory: Path, explicit: Path | None, progress: ProgressReporter, *, node: bool
) -> ClusterPrograms:
    """The programs for the cluster in `directory`, which may not exist yet."""
    state = cluster_state.load_state(directory)
    node = node or (state is not None and state.node is not None)
    if state and explicit is None and _all_exist(state):
        return _recorded_programs(state)
    return provide_programs(explicit, progress, node=node)


def provide_programs(
    explicit: Path | None, progress: ProgressReporter, *, node: bool
) -> ClusterPrograms:
    """The programs for a new cluster; those found nowhere are built or unpacked."""
    requested = (
        (*tools.CONTROL_PLANE_TOOLS, *tools.NODE_TOOLS) if node else tools.CONTROL_PLANE_TOOLS
    )
    binaries = {
        name: str(path) for name, path in provide_tools(explicit, progress, requested).items()
    }
    if not node:
        return ClusterPrograms(binaries, None)
    runtime = container_runtime.provide_runtime(progress)
    binaries |= {CONTAINERD: str(runtime.containerd), containerd.CTR: str(runtime.client)}
    binaries |= {POLICIES: sys.executable}
    return ClusterPrograms(binaries, runtime)


def _all_exist(state: ClusterState) -> bool:
    # A cluster of an older version has no enforcer recorded.
    if state.node and POLICIES not in state.binaries:
        return False
    plugins = [f"{state.node.plugins}/ptp"] if state.node else []
    return all(Path(path).is_file() for path in [*state.binaries.values(), *plugins])


def _recorded_programs(state: ClusterState) -> ClusterPrograms:
    if state.node is None:
        return ClusterPrograms(state.binaries, None)
    runtime = ContainerRuntime(
        containerd=Path(state.binaries[CONTAINERD]),
        client=Path(state.binaries[containerd.CTR]),
        plugins=Path(state.node.plugins),
        path=state.node.path,
    )
    return ClusterPrograms(state.binaries, runtime)
