"""Starts, awaits and ends one component of a cluster, and remembers it.

A process is recorded right after it was started. Dying between the two loses nothing:
its command line names the cluster's directory, and `strays` looks for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass.dev import components, failure, ports, probe, processes, state
from windlass.dev.node import commands, containerd, namespaces
from windlass.dev.node.policies import enforcement
from windlass.dev.node.slot import Slot
from windlass.dev.state import Process, State

READY_SECONDS = 180.0

_POLL_SECONDS = 0.05
_PORT_SECONDS = 5.0
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def log_file(directory: Path, component: str) -> Path:
    """Where a component writes what it has to say."""
    return directory / "logs" / f"{component}.log"


def is_running(now: State, component: str, directory: Path) -> bool:
    """Whether the recorded process of `component` lives."""
    process = now.processes.get(component)
    return process is not None and processes.is_alive(process, directory)


def start(now: State, component: str, directory: Path) -> State:
    """Start `component` on its port; the state that records it is saved."""
    if component in now.ports:
        _await_free_port(now, component, directory)
    log = log_file(directory, component)
    log.parent.mkdir(mode=0o700, exist_ok=True)
    failpoint.reach(f"dev.spawn.{component}.before")
    process = processes.spawn(
        components.command(component, now, directory),
        directory=directory,
        log=log,
        enter=namespaces.enter(directory) if now.node else (),
        path=now.node.path if now.node else "",
    )
    failpoint.reach(f"dev.spawn.{component}.after")
    now = now.with_process(component, process)
    state.save(directory, now)
    failpoint.reach(f"dev.record.{component}.after")
    return now


def _await_free_port(now: State, component: str, directory: Path) -> None:
    # A killed process shows as a zombie while its threads still hold the socket.
    port, deadline = now.ports[component], time.monotonic() + _PORT_SECONDS
    while not _is_free(now, port, directory):
        if time.monotonic() > deadline:
            raise WindlassError(
                "PortTaken",
                f"port {port} of {component} is used by another program; end that one, or run "
                f"`windlass dev down --name {now.name}` and `up` again to get other ports",
            )
        time.sleep(_POLL_SECONDS)


def _is_free(now: State, port: int, directory: Path) -> bool:
    if now.node is None:
        return ports.is_free(port)
    return namespaces.inside_network(directory, lambda: ports.is_free(port, ""))


def revive(now: State, component: str, directory: Path) -> State:
    """Start `component` unless it runs, and wait until it is ready."""
    now = ensure_running(now, component, directory)
    await_ready(now, component, directory)
    return now


def ensure_running(now: State, component: str, directory: Path) -> State:
    """Start `component` unless it runs."""
    if is_running(now, component, directory):
        return now
    # Whoever was killed between starting and recording left an unrecorded one.
    return start(stop(now, component, directory), component, directory)


def stop(now: State, component: str, directory: Path) -> State:
    """SIGKILL `component` and wait for its end; its port and data stay."""
    process = now.processes.get(component)
    victims = [] if process is None else [process]
    processes.end([*victims, *strays(component, directory)], directory)
    now = now.with_process(component, None)
    state.save(directory, now)
    return now


def strays(component: str, directory: Path) -> list[Process]:
    """Processes of `component` that belong to the cluster, recorded or not."""
    return all_strays(directory)[component]


def all_strays(directory: Path) -> Mapping[str, list[Process]]:
    """The processes of every component that belong to the cluster, recorded or not."""
    # On its way into the cluster's namespaces one is not yet what it will be; nor are others,
    # which began a moment before and must not be taken for it.
    seen = processes.named(directory, through=namespaces.ENTRANCE)
    found: dict[str, list[Process]] = {component: [] for component in components.names()}
    for pid, names in seen:
        process = processes.of(pid)
        for component, its in found.items():
            if process is not None and commands.program(component) in names:
                its.append(process)
    return found


def is_ready(now: State, component: str, directory: Path) -> bool:
    """Whether `component` does what the next one needs of it."""
    return _readiness(now, component, directory)()


def _readiness(now: State, component: str, directory: Path) -> Callable[[], bool]:
    """The question whether `component` is ready; keys are read once, however often it is put."""
    if component == components.ETCD:
        return lambda: _etcd_is_healthy(now, directory)
    if component == components.CONTAINERD:
        return lambda: containerd.is_serving(directory)
    if component == components.SCHEDULER:
        return lambda: not _is_free(now, now.ports[component], directory)
    if component == components.POLICIES:
        return lambda: enforcement.is_declared(directory, now.processes[component].pid)
    if component == components.PROXY and now.node:
        address = f"{Slot(now.node.slot).node_address}:{now.ports[component]}"
        return lambda: probe.is_healthy(f"http://{address}")
    api = probe.ApiProbe(components.server(now), directory / "pki")
    if component == components.KUBELET:
        return lambda: _kubelet_is_ready(now, api, directory)
    path = "/readyz" if component == components.API_SERVER else _DEFAULT_ACCOUNT
    return lambda: api.ask(path).ok


def _kubelet_is_ready(now: State, api: probe.ApiProbe, directory: Path) -> bool:
    # A node stays Ready for a while after its kubelet died.
    listens = not _is_free(now, now.ports[components.KUBELET], directory)
    return listens and probe.node_is_ready(api, now.name)


def _etcd_is_healthy(now: State, directory: Path) -> bool:
    url = components.etcd_url(now)
    if now.node is None:
        return probe.etcd_is_healthy(url)
    return namespaces.inside_network(directory, lambda: probe.etcd_is_healthy(url))


def await_ready(now: State, component: str, directory: Path) -> None:
    """Wait until `component` is ready; an early death is told with its last words."""
    _await(_readiness(now, component, directory), now, component, directory)


def _await(ready: Callable[[], bool], now: State, component: str, directory: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ready():
        if not is_running(now, component, directory):
            how = processes.how_it_ended(now.processes[component])
            raise failed(now, component, directory, f"ended {how} while it was starting")
        if time.monotonic() > deadline:
            missing = _missing(now, component, directory)
            problem = f"was not ready after {READY_SECONDS:.0f} s{missing}"
            raise failed(now, component, directory, problem)
        time.sleep(_POLL_SECONDS)


def _missing(now: State, component: str, directory: Path) -> str:
    """What a component that lives still lacks, as far as somebody says so."""
    if component != components.KUBELET:
        return ""
    api = probe.ApiProbe(components.server(now), directory / "pki")
    return f": {redactor.clean(probe.node_problem(api, now.name), limit=600)}"


def failed(now: State, component: str, directory: Path, problem: str) -> WindlassError:
    """The error for a component, with its words and those of others that have died."""
    dead = [one for one in now.processes if not is_running(now, one, directory)]
    speakers = dict.fromkeys([component, *dead])
    said = [_words(one, log_file(directory, one)) for one in speakers]
    return failure.told(f"{component} of cluster {now.name!r} {problem}", now.name, said)


def _words(component: str, log: Path) -> failure.Words:
    return failure.Words(component, log, last_lines(log, failure.LINES))


def last_lines(log: Path, count: int) -> list[str]:
    """The last `count` lines of `log`, without reading all of a long one."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - count * 4096))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-count:] if count else []
