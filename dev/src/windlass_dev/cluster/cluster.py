"""Lifecycle of a local cluster: `up` creates or repairs it, `down` removes it.

`up` inspects what exists and does what is missing: nothing, one dead component, or
all of it. `down` kills every process of the cluster, recorded or not, etcd last, and
removes its directory; it may be run at any time, also twice, also after any process was
killed. Both hold the cluster's lock while they change it. A cluster is a control plane,
and with a node it runs pods as well; which of the two is fixed when it is created.

    state on disk                   up does
    ------------------------------  -------------------------------------------
    nothing                         choose ports, create keys, start all
    a directory without a state     remove it and what runs from it, then as above
    a state, node setup incomplete  remove what is left of the setup, create it anew
    a state, a component dead       start that one on its old port
    a state, all alive, not ready   wait: a busy machine answers late
    a state, all alive and ready    nothing
"""

from __future__ import annotations

import itertools
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass_dev import directories, file_lock
from windlass_dev.cluster import (
    cluster_state,
    components,
    http_probe,
    launch,
    local_cluster,
    ports,
    processes,
)
from windlass_dev.cluster import pki as cluster_pki
from windlass_dev.cluster.cluster_state import ClusterState, NodeState
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.netpol import bootstrap
from windlass_dev.node import containerd, host_link, host_setup, requirements
from windlass_dev.programs import provider
from windlass_dev.programs.provider import ClusterPrograms
from windlass_dev.progress import ProgressReporter, SilentReporter


def up(
    name: str = directories.DEFAULT_NAME,
    *,
    progress: ProgressReporter | None = None,
    binaries_directory: Path | None = None,
    etcd_url: str | None = None,
    etcd_prefix: str = "",
    extra_api_server_args: Sequence[str] = (),
    node: bool = False,
) -> LocalCluster:
    """Create, repair or reuse the cluster `name`; return when it is ready to use.

    With `etcd_url` it stores its objects in that etcd, under `etcd_prefix`; with `node`
    it runs pods on this machine. An existing cluster keeps its node also without `node`.
    """
    progress = progress or SilentReporter()
    _check_platform()
    directory = directories.cluster_directory(name)
    prefix = etcd_prefix or (f"/windlass/{name}" if etcd_url else "/registry")
    requested = ClusterState(name, {}, {}, etcd_url or "", prefix, tuple(extra_api_server_args))
    if node:
        _check_node_possible(requested, directory)
    existing = cluster_state.load_state(directory)
    # Checked twice: early, so that no build runs in vain, and again under the lock.
    if existing is not None:
        _refuse_different_options(existing, etcd_url, extra_api_server_args, node=node)
    # Before the lock: a build takes minutes, and `down` must not wait for it.
    programs = provider.provide_for_cluster(directory, binaries_directory, progress, node=node)
    with local_cluster.lock_cluster(name, progress):
        state = cluster_state.load_state(directory)
        if state is None:
            # A directory without a readable state is left over from a killed `up` or `down`.
            _remove(directory)
            state = _create_state(requested, programs, directory)
        else:
            _refuse_different_options(state, etcd_url, extra_api_server_args, node=node)
            state = programs.apply_to(state)
        return _ensure_running(state, directory, progress)


def down(name: str = directories.DEFAULT_NAME, *, progress: ProgressReporter | None = None) -> bool:
    """Kill the processes of the cluster `name` and remove its directory; False if absent."""
    directory = directories.cluster_directory(name)
    with local_cluster.lock_cluster(name, progress or SilentReporter()):
        return _remove(directory)


def is_ready(state: ClusterState, directory: Path) -> bool:
    """Whether every component runs and answers its readiness check."""
    names = components.cluster_components(state)
    # All processes first: that is cheap, and a readiness check of a dead server waits.
    return all(launch.is_running(state, component, directory) for component in names) and all(
        launch.is_ready(state, component, directory) for component in names
    )


def _check_platform() -> None:
    if sys.platform != "linux":
        raise WindlassError(
            "PlatformUnsupported", "local clusters run on Linux only (they require /proc)"
        )


def _check_node_possible(requested: ClusterState, directory: Path) -> None:
    if requested.foreign_etcd:
        raise WindlassError(
            "EtcdUnreachable",
            "a cluster with a node runs its own etcd; an external etcd URL is not supported",
        )
    requirements.check_requirements(directory)


def _refuse_different_options(
    state: ClusterState, etcd_url: str | None, extra: Sequence[str], *, node: bool
) -> None:
    differs = (
        (etcd_url is not None and etcd_url != state.foreign_etcd)
        or (bool(extra) and tuple(extra) != state.extra_api_server_args)
        or (node and state.node is None)
    )
    if differs:
        raise WindlassError(
            "ClusterDiffers",
            f"cluster {state.name!r} exists with a different etcd, different API server arguments "
            f"or without a node; run `windlass dev down --name {state.name}` first",
        )


def _create_state(state: ClusterState, programs: ClusterPrograms, directory: Path) -> ClusterState:
    """Choose ports or addresses that no other cluster has, and save the state of a new one."""
    # Under a lock of all clusters: two that are created at the same time must not choose the
    # same ports. No cluster has a name with which its own lock would be this file.
    with file_lock.hold(directories.state_root() / ".lock"):
        if not programs.plugins:
            state = replace(state, ports=_free_ports())
        else:
            state = replace(
                state, ports=components.NODE_PORTS, node=NodeState(_free_slot(), "", "")
            )
        state = programs.apply_to(state)
        failpoint.reach("dev.found.before")
        directories.ensure_private(directory)
        cluster_state.save_state(directory, state)
        failpoint.reach("dev.found.after")
    return state


def _free_slot() -> int:
    return host_link.choose_slot(other.node.slot for other in _other_states() if other.node).number


def _free_ports() -> dict[str, int]:
    chosen = ports.choose_ports(
        len(components.PORTS),
        taken={port for other in _other_states() for port in other.ports.values()},
        ceiling=ports.first_ephemeral_port(),
        is_free=ports.is_free,
        rng=random.Random(),
    )
    return dict(zip(components.PORTS, chosen, strict=True))


def _other_states() -> list[ClusterState]:
    states = (
        cluster_state.load_state(directories.cluster_directory(name))
        for name in directories.cluster_names()
    )
    return [other for other in states if other is not None]


def _ensure_running(
    state: ClusterState, directory: Path, progress: ProgressReporter
) -> LocalCluster:
    """Start what is not running, wave by wave; a cluster that is ready is left alone.

    Of a cluster whose components all ran already it is reported that it is running, also if one
    answered late: nothing was started.
    """
    cluster = local_cluster.from_state(state, directory)
    found = state.processes
    if not is_ready(state, directory):
        with progress.step(f"{_verb(state, directory)} cluster {state.name!r}"):
            state = _ensure_host_setup(state, directory)
            cluster = local_cluster.from_state(state, directory)
            _write_credentials(state, cluster)
            for wave in components.start_waves(state):
                state = _start_wave(state, wave, directory, progress)
    how = "running" if state.processes == found else "ready"
    progress.report(f"cluster {state.name!r} is {how} at {cluster.server}")
    return cluster


def _verb(state: ClusterState, directory: Path) -> str:
    """What `up` does about a cluster that is not ready."""
    if not state.processes:
        return "starting"
    names = components.cluster_components(state)
    is_alive = all(launch.is_running(state, component, directory) for component in names)
    return "waiting for" if is_alive else "repairing"


def _ensure_host_setup(state: ClusterState, directory: Path) -> ClusterState:
    """Ensure the node's kernel setup; return the state, with another slot if its own was taken.

    Only a cluster without keys may move to another slot: its certificates name the addresses.
    """
    if state.node is None:
        return state
    try:
        host_setup.ensure_setup(state.node, directory)
    except WindlassError as fault:
        if fault.reason != host_link.SLOT_TAKEN or (directory / "pki").exists():
            raise
    else:
        return state
    moved = replace(state, node=replace(state.node, slot=_free_slot()))
    cluster_state.save_state(directory, moved)
    return _ensure_host_setup(moved, directory)


def _start_wave(
    state: ClusterState, wave: Sequence[str], directory: Path, progress: ProgressReporter
) -> ClusterState:
    for component in wave:
        if component in state.processes and not launch.is_running(state, component, directory):
            progress.report(f"{component} is not running; restarting it")
        state = launch.ensure_running(state, component, directory)
    for component in wave:
        launch.wait_until_ready(state, component, directory)
        # What the next wave needs: an image for every pod, read access for the enforcer.
        if component == components.CONTAINERD:
            _prepare_containerd(state, directory)
        if component == components.API_SERVER and state.node is not None:
            bootstrap.grant_access(local_cluster.from_state(state, directory).api)
    return state


def _prepare_containerd(state: ClusterState, directory: Path) -> None:
    """Import the pause image; fail where containerd runs without its CRI plugin."""
    if not containerd.serves_pods(state, directory):
        raise launch.component_failure(
            state, components.CONTAINERD, directory, "is running, but its CRI plugin did not load"
        )
    containerd.load_pause_image(state, directory)


def _write_credentials(state: ClusterState, cluster: LocalCluster) -> None:
    pki = cluster.directory / "pki"
    cluster_pki.ensure_pki(pki, components.server_addresses(state))
    if not cluster.admin_kubeconfig.exists():
        admin = cluster_pki.read_pair(pki, "admin")
        local_cluster.write_kubeconfig(cluster, cluster.admin_kubeconfig, "admin", admin)
    for file, (user, groups) in components.identities(state).items():
        path = cluster.directory / f"{file}.kubeconfig"
        if not path.exists():
            local_cluster.write_kubeconfig(
                cluster, path, user, cluster.issue_client_pair(user, groups)
            )


def _remove(directory: Path) -> bool:
    state = cluster_state.load_state(directory)
    _kill_all(state, directory)
    if state is not None and state.foreign_etcd:
        http_probe.delete_etcd_prefix(state.foreign_etcd, state.etcd_prefix)
    failpoint.reach("dev.remove.before")
    existed = directory.exists()
    if existed:
        shutil.rmtree(directory)
    failpoint.reach("dev.remove.after")
    return existed


def _kill_all(state: ClusterState | None, directory: Path) -> None:
    processes.kill_background(directory)
    recorded = state.processes if state else {}
    host_setup.remove(directory)
    running = launch.processes_by_component(directory)
    for component in reversed(components.all_components()):
        from_record = [recorded[component]] if component in recorded else []
        processes.kill_processes([*from_record, *running[component]], directory)
        failpoint.reach(f"dev.end.{component}.after")
    # A component that was being started during the first scan is found by the second.
    processes.kill_processes(
        itertools.chain(*launch.processes_by_component(directory).values()), directory
    )
