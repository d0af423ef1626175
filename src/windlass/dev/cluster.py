"""Brings a cluster up, repairs it, takes it down.

`up` looks at what is there and does what is missing: nothing, one dead component, or
all of it. `down` ends every process of the cluster, recorded or not, etcd last, and
removes its directory; it may be run at any time, also twice, also after anything was
killed. Both hold the cluster's lock while they change it. A cluster is a control plane,
and with a node it runs pods as well; which of the two is settled when it is founded.

    found                           up does
    ------------------------------  -------------------------------------------
    nothing                         choose ports, make keys, start all
    a directory without a state     remove it and what runs from it, then as above
    a state, no ground for a node   take away what is left of it, make it anew
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
from windlass.dev import (
    certificates,
    companions,
    components,
    desk,
    launch,
    lock,
    places,
    ports,
    probe,
    processes,
    programs,
    state,
)
from windlass.dev.desk import Desk
from windlass.dev.node import containerd, ground, network, precondition, sandbox
from windlass.dev.node.policies import access
from windlass.dev.programs import Programs
from windlass.dev.progress import Progress, Silent
from windlass.dev.state import Node, State


def up(
    name: str = places.DEFAULT_NAME,
    *,
    progress: Progress | None = None,
    binaries_directory: Path | None = None,
    etcd_url: str | None = None,
    etcd_prefix: str = "",
    extra_api_server_args: Sequence[str] = (),
    node: bool = False,
) -> Desk:
    """Bring the cluster `name` up, or back to life; returns when it is ready to use.

    With `etcd_url` it stores its objects in that etcd, under `etcd_prefix`; with `node`
    it runs pods on this machine. An existing cluster keeps its node without being told.
    """
    progress = progress or Silent()
    _check_platform()
    directory = places.directory(name)
    prefix = etcd_prefix or (f"/windlass/{name}" if etcd_url else "/registry")
    wanted = State(name, {}, {}, etcd_url or "", prefix, tuple(extra_api_server_args))
    if node:
        _check_node(wanted, directory)
    known = state.load(directory)
    if known is not None:
        _refuse_change(known, etcd_url, extra_api_server_args, node=node)
    # Before the lock: a build takes minutes, and `down` must not wait for it.
    found = programs.locate(directory, binaries_directory, progress, node=node)
    with desk.locked(name, progress):
        now = state.load(directory)
        if now is None:
            _remove(directory)
            now = _founded(wanted, found, directory)
        else:
            _refuse_change(now, etcd_url, extra_api_server_args, node=node)
            now = found.into(now)
        return _run(now, directory, progress)


def down(name: str = places.DEFAULT_NAME, *, progress: Progress | None = None) -> bool:
    """End the cluster `name` and remove all of it; False if there was nothing."""
    directory = places.directory(name)
    with desk.locked(name, progress or Silent()):
        return _remove(directory)


def is_ready(now: State, directory: Path) -> bool:
    """Whether every component lives and the cluster can be used."""
    own = components.of(now)
    return all(launch.is_running(now, component, directory) for component in own) and all(
        launch.is_ready(now, component, directory) for component in own
    )


def _check_platform() -> None:
    if sys.platform != "linux":
        raise WindlassError(
            "PlatformUnsupported", "the local control plane runs on Linux only (it needs /proc)"
        )


def _check_node(wanted: State, directory: Path) -> None:
    if wanted.foreign_etcd:
        raise WindlassError(
            "EtcdUnreachable", "a cluster with a node has a network, and so an etcd, of its own"
        )
    precondition.require(directory)


def _refuse_change(now: State, etcd_url: str | None, extra: Sequence[str], *, node: bool) -> None:
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


def _founded(now: State, found: Programs, directory: Path) -> State:
    """A new cluster's directory with ports or addresses that no other cluster was given."""
    with lock.held_directory(places.state_root()):
        if found.runtime is None:
            now = replace(now, ports=_free_ports())
        else:
            now = replace(now, ports=components.NODE_PORTS, node=Node(_free_slot(), "", ""))
        now = found.into(now)
        failpoint.reach("dev.found.before")
        places.make_private(directory)
        state.save(directory, now)
        failpoint.reach("dev.found.after")
    return now


def _free_slot() -> int:
    return network.choose(one.node.slot for one in _others() if one.node).number


def _free_ports() -> dict[str, int]:
    chosen = ports.choose(
        len(components.PORTS),
        taken={port for other in _others() for port in other.ports.values()},
        ceiling=ports.ceiling(),
        is_free=ports.is_free,
        rng=random.Random(),
    )
    return dict(zip(components.PORTS, chosen, strict=True))


def _others() -> list[State]:
    found = (state.load(places.directory(name)) for name in places.names())
    return [other for other in found if other is not None]


def _run(now: State, directory: Path, progress: Progress) -> Desk:
    made = desk.of(now, directory)
    if is_ready(now, directory):
        progress.say(f"cluster {now.name!r} is running at {made.server}")
        return made
    repaired = bool(now.processes)
    with progress.step(f"{'repairing' if repaired else 'starting'} cluster {now.name!r}"):
        now = _grounded(now, directory)
        made = desk.of(now, directory)
        _write_keys(now, made)
        for wave in components.waves(now):
            now = _start(now, wave, directory, progress)
    progress.say(f"cluster {now.name!r} is ready at {made.server}")
    return made


def _grounded(now: State, directory: Path) -> State:
    """The state on a ground that is there; before it has keys a cluster may still move."""
    if now.node is None:
        return now
    try:
        ground.ensure(now.node, directory)
    except WindlassError as fault:
        if fault.reason != network.SLOT_TAKEN or (directory / "pki").exists():
            raise
    else:
        return now
    moved = replace(now, node=replace(now.node, slot=_free_slot()))
    state.save(directory, moved)
    return _grounded(moved, directory)


def _start(now: State, wave: Sequence[str], directory: Path, progress: Progress) -> State:
    for component in wave:
        if component in now.processes and not launch.is_running(now, component, directory):
            progress.say(f"{component} is dead; starting it again")
        now = launch.ensure_running(now, component, directory)
    for component in wave:
        launch.await_ready(now, component, directory)
        if component == components.CONTAINERD:
            _furnish(now, directory)
        if component == components.API_SERVER and now.node is not None:
            access.grant(desk.of(now, directory).api)
    return now


def _furnish(now: State, directory: Path) -> None:
    """Give containerd what every pod begins with, once it can serve pods at all."""
    if not containerd.serves_pods(now, directory):
        raise launch.failed(now, components.CONTAINERD, directory, "runs, but cannot serve pods")
    sandbox.load(now, directory)


def _write_keys(now: State, made: Desk) -> None:
    pki = made.directory / "pki"
    certificates.ensure(pki, components.addresses(now))
    if not made.admin_kubeconfig.exists():
        admin = certificates.read(pki, "admin")
        desk.write_kubeconfig(made, made.admin_kubeconfig, "admin", admin)
    for file, (user, groups) in components.identities(now).items():
        path = made.directory / f"{file}.kubeconfig"
        if not path.exists():
            desk.write_kubeconfig(made, path, user, made.issue(user, groups))


def _remove(directory: Path) -> bool:
    now = state.load(directory)
    _end_all(now, directory)
    if now is not None and now.foreign_etcd:
        probe.forget_etcd_prefix(now.foreign_etcd, now.etcd_prefix)
    failpoint.reach("dev.remove.before")
    existed = directory.exists()
    if existed:
        shutil.rmtree(directory)
    failpoint.reach("dev.remove.after")
    return existed


def _end_all(now: State | None, directory: Path) -> None:
    companions.end(directory)
    recorded = now.processes if now else {}
    ground.remove(directory)
    found = launch.all_strays(directory)
    for component in reversed(components.names()):
        known = [recorded[component]] if component in recorded else []
        processes.end([*known, *found[component]], directory)
        failpoint.reach(f"dev.end.{component}.after")
    # Whoever was just starting when the others were looked for.
    processes.end(itertools.chain(*launch.all_strays(directory).values()), directory)
