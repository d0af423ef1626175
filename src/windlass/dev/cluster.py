"""Brings a control plane up, repairs it, takes it down.

`up` looks at what is there and does what is missing: nothing, one dead component, or
all of it. `down` ends every process of the cluster, recorded or not, etcd last, and
removes its directory; it may be run at any time, also twice, also after anything was
killed. Both hold the cluster's lock while they change it.

    found                           up does
    ------------------------------  -------------------------------------------
    nothing                         choose ports, make keys, start all
    a directory without a state     remove it and what runs from it, then as above
    a state, a component dead       start that one on its old port
    a state, all alive and ready    nothing
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.dev import (
    binaries,
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
    state,
)
from windlass.dev.desk import Desk
from windlass.dev.progress import Progress, Silent
from windlass.dev.state import State


def up(
    name: str = places.DEFAULT_NAME,
    *,
    progress: Progress | None = None,
    binaries_directory: Path | None = None,
    etcd_url: str | None = None,
    etcd_prefix: str = "",
    extra_api_server_args: Sequence[str] = (),
) -> Desk:
    """Bring the cluster `name` up, or back to life; returns when it is ready to use.

    With `etcd_url` it stores its objects in that etcd, under `etcd_prefix`.
    """
    progress = progress or Silent()
    _check_platform()
    directory = places.directory(name)
    programs = _programs(directory, binaries_directory, progress)
    with desk.locked(name, progress):
        now = state.load(directory)
        if now is None:
            _remove(directory)
            prefix = etcd_prefix or (f"/windlass/{name}" if etcd_url else "/registry")
            extra = tuple(extra_api_server_args)
            now = State(name, {}, programs, etcd_url or "", prefix, extra)
            now = _founded(now, directory)
        else:
            _refuse_change(now, etcd_url, extra_api_server_args)
            now = replace(now, binaries=programs)
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


def _programs(directory: Path, explicit: Path | None, progress: Progress) -> dict[str, str]:
    # Before the lock: a build takes minutes, and `down` must not wait for it.
    known = state.load(directory)
    if known and explicit is None and all(Path(p).is_file() for p in known.binaries.values()):
        return dict(known.binaries)
    return {name: str(path) for name, path in binaries.locate(explicit, progress).items()}


def _refuse_change(now: State, etcd_url: str | None, extra: Sequence[str]) -> None:
    differs = (etcd_url is not None and etcd_url != now.foreign_etcd) or (
        bool(extra) and tuple(extra) != now.extra_api_server_args
    )
    if differs:
        raise WindlassError(
            "ClusterDiffers",
            f"cluster {now.name!r} exists with another etcd or other API server arguments; "
            f"`windlass dev down --name {now.name}` first",
        )


def _founded(now: State, directory: Path) -> State:
    """A new cluster's directory with ports that no other cluster was given."""
    with lock.held_directory(places.state_root()):
        chosen = ports.choose(
            len(components.PORTS),
            taken=_given_ports(),
            ceiling=ports.ceiling(),
            is_free=ports.is_free,
            rng=random.Random(),
        )
        now = replace(now, ports=dict(zip(components.PORTS, chosen, strict=True)))
        failpoint.reach("dev.found.before")
        places.make_private(directory)
        state.save(directory, now)
        failpoint.reach("dev.found.after")
    return now


def _given_ports() -> set[int]:
    others = (state.load(places.directory(name)) for name in places.names())
    return {port for other in others if other is not None for port in other.ports.values()}


def _run(now: State, directory: Path, progress: Progress) -> Desk:
    made = desk.of(now, directory)
    if is_ready(now, directory):
        progress.say(f"cluster {now.name!r} is running at {made.server}")
        return made
    _write_keys(made)
    repaired = bool(now.processes)
    with progress.step(f"{'repairing' if repaired else 'starting'} cluster {now.name!r}"):
        for component in components.of(now):
            if repaired and not launch.is_running(now, component, directory):
                progress.say(f"{component} is dead; starting it again")
            now = launch.revive(now, component, directory)
    progress.say(f"cluster {now.name!r} is ready at {made.server}")
    return made


def _write_keys(made: Desk) -> None:
    pki = made.directory / "pki"
    certificates.ensure(pki)
    if not made.admin_kubeconfig.exists():
        admin = certificates.read(pki, "admin")
        desk.write_kubeconfig(made, made.admin_kubeconfig, "admin", admin)
    manager = made.directory / "controller-manager.kubeconfig"
    if not manager.exists():
        user = "system:kube-controller-manager"
        desk.write_kubeconfig(made, manager, user, made.issue(user))


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
    for component in reversed(components.START_ORDER):
        known = [recorded[component]] if component in recorded else []
        processes.end([*known, *launch.strays(component, directory)], directory)
        failpoint.reach(f"dev.end.{component}.after")
