"""Provides the programs of a cluster, and helm: finds them, or has them built or unpacked.

Every program is searched for in this order, and its origin is reported:

| Origin | Programs of Kubernetes, etcd, helm | Container runtime, CNI plugins, iptables |
|---|---|---|
| the cluster's state | those it was created with, while they exist | the same |
| a named directory | option or variable; a wrong version there is an error | |
| the machine | PATH, exact version only: wrappers are common there | PATH, CNI directories |
| our cache | trusted: only finished entries have a name in it | the same |
| made now | built with Go | unpacked from Debian packages |

Everything runs with configuration and data of the cluster's own, so another containerd on
this machine is not disturbed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass_dev import directories
from windlass_dev.cluster import cluster_state
from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.node import containerd, system
from windlass_dev.node.commands import CONTAINERD, POLICIES
from windlass_dev.programs import debian_packages, go_build, program_cache, tools
from windlass_dev.programs.tools import PackagedSet, Tool
from windlass_dev.progress import ProgressReporter, SilentReporter

BINARIES_VARIABLE = "WINDLASS_BINARIES"
ENVTEST_VARIABLE = "KUBEBUILDER_ASSETS"

_VERSION_SECONDS = 20.0

_Search = Callable[[list[Tool]], dict[str, Path]]


@dataclass(frozen=True, slots=True)
class ClusterPrograms:
    """The programs of one cluster."""

    binaries: Mapping[str, str]
    """Path by component or program."""
    path: str = ""
    """A PATH with every program of the container runtime; empty without a node."""
    plugins: str = ""
    """The directory of the CNI plugins; empty without a node."""

    def apply_to(self, state: ClusterState) -> ClusterState:
        """`state` with these programs."""
        node = state.node
        if node is not None and self.plugins:
            node = replace(node, path=self.path, plugins=self.plugins)
        return replace(state, binaries=self.binaries, node=node)


def provide_for_cluster(
    directory: Path, explicit: Path | None, progress: ProgressReporter, *, node: bool
) -> ClusterPrograms:
    """The programs for the cluster in `directory`, which may not exist yet."""
    state = cluster_state.load_state(directory)
    if state and explicit is None and _all_exist(state):
        recorded = state.node
        return ClusterPrograms(
            state.binaries, *((recorded.path, recorded.plugins) if recorded else ())
        )
    node = node or (state is not None and state.node is not None)
    return provide_programs(explicit, progress, node=node)


def _all_exist(state: ClusterState) -> bool:
    # A cluster of an older version has no enforcer recorded.
    if state.node and POLICIES not in state.binaries:
        return False
    plugins = [f"{state.node.plugins}/ptp"] if state.node else []
    return all(Path(path).is_file() for path in [*state.binaries.values(), *plugins])


def provide_programs(
    explicit: Path | None, progress: ProgressReporter, *, node: bool
) -> ClusterPrograms:
    """The programs for a new cluster; those found nowhere are built or unpacked."""
    requested = (*tools.CONTROL_PLANE_TOOLS, *(tools.NODE_TOOLS if node else ()))
    located = provide_tools(explicit, progress, requested)
    binaries = {name: str(path) for name, path in located.items()}
    if not node:
        return ClusterPrograms(binaries)
    machine = system.search_path()
    provided = [str(_provide_set(packaged, progress)) for packaged in tools.RUNTIME_SETS]
    # What we unpacked comes first; the machine's own programs are on its PATH already.
    unpacked = [directory for directory in provided if directory not in machine.split(os.pathsep)]
    path = os.pathsep.join([*unpacked, machine])
    for name in (CONTAINERD, containerd.CTR):
        program = shutil.which(name, path=path)
        assert program is not None, f"{name} was provided"
        binaries[name] = program
    binaries[POLICIES] = sys.executable
    return ClusterPrograms(binaries, path, str(_provide_set(tools.CNI_PLUGINS, progress)))


def provide_tools(
    explicit: Path | None,
    progress: ProgressReporter,
    requested: Sequence[Tool] = tools.CONTROL_PLANE_TOOLS,
) -> dict[str, Path]:
    """The path of every program of `requested` by name; builds those found nowhere."""
    build: _Search = partial(_build, progress=progress)
    return _search(requested, {**_searches(explicit), "built": build}, progress)


def find_tool(tool: Tool) -> Path | None:
    """The path of a program that exists already; None if it would have to be built."""
    return _search((tool,), _searches(None), SilentReporter()).get(tool.name)


def cache_directory(bundle: str = tools.BUNDLE) -> Path:
    """The directory of finished builds of exactly our versions."""
    return directories.cache_root() / bundle


def _search(
    requested: Sequence[Tool], searches: Mapping[str, _Search], progress: ProgressReporter
) -> dict[str, Path]:
    """The path of every program that one of `searches` finds; later ones get what is missing."""
    located: dict[str, Path] = {}
    for origin, search in searches.items():
        found = search([tool for tool in requested if tool.name not in located])
        for directory in dict.fromkeys(path.parent for path in found.values()):
            names = [name for name, path in found.items() if path.parent == directory]
            progress.report(f"{', '.join(names)} from {directory} ({origin})")
        located |= found
    return {tool.name: located[tool.name] for tool in requested if tool.name in located}


def _searches(explicit: Path | None) -> dict[str, _Search]:
    """The ways to find an existing program, by the name of the origin."""
    searches: dict[str, _Search] = {"PATH": _from_path, "cache": _from_cache}
    variables = {name: os.environ.get(name) for name in (BINARIES_VARIABLE, ENVTEST_VARIABLE)}
    for setting, directory in {"--binaries": explicit, **variables}.items():
        # The first one that is set counts, also where it does not contain every program.
        if directory:
            named = partial(_from_named_directory, Path(directory).absolute(), setting)
            return {setting: named, **searches}
    return searches


def _from_named_directory(directory: Path, setting: str, requested: list[Tool]) -> dict[str, Path]:
    paths = {
        tool: directory / tool.name
        for tool in requested
        if not tool.is_built_only and (directory / tool.name).exists()
    }
    faults = [
        f"{tool.name} has version {version or 'unknown'}, {tool.version} is required"
        for tool, version in _query_versions(paths).items()
        if version != tool.version
    ]
    # An envtest directory never contains a controller manager, so there a gap is not an
    # error; nor need any directory contain what only a node uses.
    if setting != ENVTEST_VARIABLE:
        needed = [tool for tool in tools.CONTROL_PLANE_TOOLS if tool in requested]
        faults += [f"{tool.name} is missing" for tool in needed if tool not in paths]
    if faults:
        raise WindlassError(
            "BinariesWrong",
            f"{directory}, set by {setting}: {'; '.join(faults)}. Put the required "
            f"versions there, or unset {setting} to use the cache or a build.",
        )
    return {tool.name: path for tool, path in paths.items()}


def _from_path(requested: list[Tool]) -> dict[str, Path]:
    paths = {
        tool: Path(located).absolute()
        for tool in requested
        if not tool.is_built_only and (located := shutil.which(tool.name))
    }
    versions = _query_versions(paths)
    return {tool.name: path for tool, path in paths.items() if versions[tool] == tool.version}


def _from_cache(requested: list[Tool]) -> dict[str, Path]:
    paths = [cache_directory(tool.bundle) / tool.name for tool in requested]
    return {path.name: path for path in paths if path.is_file()}


def _build(requested: list[Tool], progress: ProgressReporter) -> dict[str, Path]:
    built: dict[str, Path] = {}
    for bundle in dict.fromkeys(tool.bundle for tool in requested):
        together = [tool for tool in requested if tool.bundle == bundle]
        built |= go_build.build_tools(together, cache_directory(bundle), progress)
    return built


def _query_versions(paths: dict[Tool, Path]) -> dict[Tool, str | None]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(paths, pool.map(_query_version, paths, paths.values()), strict=True))


def _query_version(tool: Tool, path: Path) -> str | None:
    done = program_cache.run([path, *tool.version_arguments], seconds=_VERSION_SECONDS)
    return tools.parse_version(done.stdout)


def _provide_set(packaged: PackagedSet, progress: ProgressReporter) -> Path:
    """The directory of the programs of a set."""
    for search_path in packaged.directories or (system.search_path(),):
        located = [shutil.which(name, path=search_path) for name in packaged.programs]
        if located[0] is not None and all(located):
            directory = Path(located[0]).parent
            progress.report(f"{packaged.name} from {directory} (installed)")
            return directory
    origin = "cache" if debian_packages.find_unpacked(packaged.name) else "downloaded"
    unpacked = debian_packages.provide_packages(packaged.name, packaged.packages, progress)
    progress.report(f"{packaged.name} from {unpacked} (Debian package, {origin})")
    return unpacked / packaged.unpacked
