"""Lifecycle of a local cluster: `up` creates or repairs it, `down` removes it.

`up` inspects what exists and does what is missing: nothing, one dead component, or
all of it. `down` kills every process of the cluster, recorded or not, etcd last, and
removes its directory; it may be run at any time, also twice, also after any process was
killed. Both hold the cluster's lock while they change it. A cluster is a control plane,
and with a node it runs pods as well; which of the two is fixed when it is created.

    state on disk                   up does
    ------------------------------  -------------------------------------------
    nothing                         choose ports, make keys, start all
    a directory without a state     remove it and what runs from it, then as above
    a state, node setup incomplete  remove what is left of the setup, make it anew
    a state, a component dead       start that one on its old port
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
    """Bring the cluster `name` up, or back to life; returns when it is ready to use.

    With `etcd_url` it stores its objects in that etcd, under `etcd_prefix`; with `node`
    it runs pods on this machine. An existing cluster keeps its node without being told.
    """
    progress = progress or SilentReporter()
    _check_platform()
    directory = directories.cluster_directory(name)
    prefix = etcd_prefix or (f"/windlass/{name}" if etcd_url else "/registry")
    wanted = ClusterState(name, {}, {}, etcd_url or "", prefix, tuple(extra_api_server_args))
    if node:
        _check_node_possible(wanted, directory)
    known = cluster_state.load_state(directory)
    if known is not None:
        _refuse_different_options(known, etcd_url, extra_api_server_args, node=node)
    # Before the lock: a build takes minutes, and `down` must not wait for it.
    found = provider.provide_for_cluster(directory, binaries_directory, progress, node=node)
    with local_cluster.lock_cluster(name, progress):
        now = cluster_state.load_state(directory)
        if now is None:
            _remove(directory)
            now = _create_state(wanted, found, directory)
        else:
            _refuse_different_options(now, etcd_url, extra_api_server_args, node=node)
            now = found.apply_to(now)
        return _ensure_running(now, directory, progress)


def down(name: str = directories.DEFAULT_NAME, *, progress: ProgressReporter | None = None) -> bool:
    """End the cluster `name` and remove all of it; False if there was nothing."""
    directory = directories.cluster_directory(name)
    with local_cluster.lock_cluster(name, progress or SilentReporter()):
        return _remove(directory)


def is_ready(now: ClusterState, directory: Path) -> bool:
    """Whether every component lives and the cluster can be used."""
    own = components.cluster_components(now)
    return all(launch.is_running(now, component, directory) for component in own) and all(
        launch.is_ready(now, component, directory) for component in own
    )


def _check_platform() -> None:
    if sys.platform != "linux":
        raise WindlassError(
            "PlatformUnsupported", "the local control plane runs on Linux only (it needs /proc)"
        )


def _check_node_possible(wanted: ClusterState, directory: Path) -> None:
    if wanted.foreign_etcd:
        raise WindlassError(
            "EtcdUnreachable", "a cluster with a node has a network, and so an etcd, of its own"
        )
    requirements.check_requirements(directory)


def _refuse_different_options(
    now: ClusterState, etcd_url: str | None, extra: Sequence[str], *, node: bool
) -> None:
    differs = (
        (etcd_url is not None and etcd_url != now.foreign_etcd)
        or (bool(extra) and tuple(extra) != now.extra_api_server_args)
        or (node and now.node is None)
    )
    if differs:
        raise WindlassError(
            "ClusterDiffers",
            f"cluster {now.name!r} exists with another etcd, other API server arguments or "
            f"without a node; `windlass dev down --name {now.name}` first",
        )


def _create_state(now: ClusterState, found: ClusterPrograms, directory: Path) -> ClusterState:
    """A new cluster's directory with ports or addresses that no other cluster was given."""
    with file_lock.hold_directory(directories.state_root()):
        if found.runtime is None:
            now = replace(now, ports=_free_ports())
        else:
            now = replace(now, ports=components.NODE_PORTS, node=NodeState(_free_slot(), "", ""))
        now = found.apply_to(now)
        failpoint.reach("dev.found.before")
        directories.ensure_private(directory)
        cluster_state.save_state(directory, now)
        failpoint.reach("dev.found.after")
    return now


def _free_slot() -> int:
    return host_link.choose_slot(one.node.slot for one in _other_states() if one.node).number


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
    found = (
        cluster_state.load_state(directories.cluster_directory(name))
        for name in directories.cluster_names()
    )
    return [other for other in found if other is not None]


def _ensure_running(now: ClusterState, directory: Path, progress: ProgressReporter) -> LocalCluster:
    made = local_cluster.from_state(now, directory)
    if is_ready(now, directory):
        progress.report(f"cluster {now.name!r} is running at {made.server}")
        return made
    repaired = bool(now.processes)
    with progress.step(f"{'repairing' if repaired else 'starting'} cluster {now.name!r}"):
        now = _ensure_host_setup(now, directory)
        made = local_cluster.from_state(now, directory)
        _write_credentials(now, made)
        for wave in components.start_waves(now):
            now = _start_wave(now, wave, directory, progress)
    progress.report(f"cluster {now.name!r} is ready at {made.server}")
    return made


def _ensure_host_setup(now: ClusterState, directory: Path) -> ClusterState:
    """The state on a ground that is there; before it has keys a cluster may still move."""
    if now.node is None:
        return now
    try:
        host_setup.ensure_setup(now.node, directory)
    except WindlassError as fault:
        if fault.reason != host_link.SLOT_TAKEN or (directory / "pki").exists():
            raise
    else:
        return now
    moved = replace(now, node=replace(now.node, slot=_free_slot()))
    cluster_state.save_state(directory, moved)
    return _ensure_host_setup(moved, directory)


def _start_wave(
    now: ClusterState, wave: Sequence[str], directory: Path, progress: ProgressReporter
) -> ClusterState:
    for component in wave:
        if component in now.processes and not launch.is_running(now, component, directory):
            progress.report(f"{component} is dead; starting it again")
        now = launch.ensure_running(now, component, directory)
    for component in wave:
        launch.wait_until_ready(now, component, directory)
        if component == components.CONTAINERD:
            _prepare_containerd(now, directory)
        if component == components.API_SERVER and now.node is not None:
            bootstrap.grant_access(local_cluster.from_state(now, directory).api)
    return now


def _prepare_containerd(now: ClusterState, directory: Path) -> None:
    """Give containerd what every pod begins with, once it can serve pods at all."""
    if not containerd.serves_pods(now, directory):
        raise launch.component_failure(
            now, components.CONTAINERD, directory, "runs, but cannot serve pods"
        )
    containerd.load_pause_image(now, directory)


def _write_credentials(now: ClusterState, made: LocalCluster) -> None:
    pki = made.directory / "pki"
    cluster_pki.ensure_pki(pki, components.server_addresses(now))
    if not made.admin_kubeconfig.exists():
        admin = cluster_pki.read_pair(pki, "admin")
        local_cluster.write_kubeconfig(made, made.admin_kubeconfig, "admin", admin)
    for file, (user, groups) in components.identities(now).items():
        path = made.directory / f"{file}.kubeconfig"
        if not path.exists():
            local_cluster.write_kubeconfig(made, path, user, made.issue_client_pair(user, groups))


def _remove(directory: Path) -> bool:
    now = cluster_state.load_state(directory)
    _kill_all(now, directory)
    if now is not None and now.foreign_etcd:
        http_probe.delete_etcd_prefix(now.foreign_etcd, now.etcd_prefix)
    failpoint.reach("dev.remove.before")
    existed = directory.exists()
    if existed:
        shutil.rmtree(directory)
    failpoint.reach("dev.remove.after")
    return existed


def _kill_all(now: ClusterState | None, directory: Path) -> None:
    processes.kill_background(directory)
    recorded = now.processes if now else {}
    host_setup.remove(directory)
    found = launch.processes_by_component(directory)
    for component in reversed(components.all_components()):
        known = [recorded[component]] if component in recorded else []
        processes.kill_processes([*known, *found[component]], directory)
        failpoint.reach(f"dev.end.{component}.after")
    # Whoever was just starting when the others were looked for.
    processes.kill_processes(
        itertools.chain(*launch.processes_by_component(directory).values()), directory
    )
