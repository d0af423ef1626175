"""Starts, awaits and ends one component of a cluster, and records its process.

A process is recorded right after it was started. Dying between the two loses nothing:
its command line has the cluster's directory in it, and `component_processes` searches
for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass_dev.cluster import (
    cluster_state,
    components,
    failure_report,
    http_probe,
    ports,
    processes,
)
from windlass_dev.cluster.cluster_state import ClusterState, RecordedProcess
from windlass_dev.netpol import bootstrap
from windlass_dev.node import commands, containerd, kernel_namespaces
from windlass_dev.node.allocation import Slot

READY_SECONDS = 180.0

_POLL_SECONDS = 0.05
_PORT_SECONDS = 5.0
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def log_file(directory: Path, component: str) -> Path:
    """Where a component writes what it has to say."""
    return directory / "logs" / f"{component}.log"


def is_running(now: ClusterState, component: str, directory: Path) -> bool:
    """Whether the recorded process of `component` lives."""
    process = now.processes.get(component)
    return process is not None and processes.is_alive(process, directory)


def start(now: ClusterState, component: str, directory: Path) -> ClusterState:
    """Start `component` on its port; the state that records it is saved."""
    if component in now.ports:
        _wait_for_free_port(now, component, directory)
    log = log_file(directory, component)
    log.parent.mkdir(mode=0o700, exist_ok=True)
    failpoint.reach(f"dev.spawn.{component}.before")
    process = processes.spawn(
        components.command_line(component, now, directory),
        directory=directory,
        log=log,
        enter=kernel_namespaces.enter_command(directory) if now.node else (),
        path=now.node.path if now.node else "",
    )
    failpoint.reach(f"dev.spawn.{component}.after")
    now = now.with_process(component, process)
    cluster_state.save_state(directory, now)
    failpoint.reach(f"dev.record.{component}.after")
    return now


def _wait_for_free_port(now: ClusterState, component: str, directory: Path) -> None:
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


def _is_free(now: ClusterState, port: int, directory: Path) -> bool:
    if now.node is None:
        return ports.is_free(port)
    return kernel_namespaces.run_in_network(directory, lambda: ports.is_free(port, ""))


def start_and_wait(now: ClusterState, component: str, directory: Path) -> ClusterState:
    """Start `component` unless it runs, and wait until it is ready."""
    now = ensure_running(now, component, directory)
    wait_until_ready(now, component, directory)
    return now


def ensure_running(now: ClusterState, component: str, directory: Path) -> ClusterState:
    """Start `component` unless it runs."""
    if is_running(now, component, directory):
        return now
    # Whoever was killed between starting and recording left an unrecorded one.
    return start(stop(now, component, directory), component, directory)


def stop(now: ClusterState, component: str, directory: Path) -> ClusterState:
    """SIGKILL `component` and wait for its end; its port and data stay."""
    process = now.processes.get(component)
    victims = [] if process is None else [process]
    processes.kill_processes([*victims, *component_processes(component, directory)], directory)
    now = now.with_process(component, None)
    cluster_state.save_state(directory, now)
    return now


def component_processes(component: str, directory: Path) -> list[RecordedProcess]:
    """Processes of `component` that belong to the cluster, recorded or not."""
    return processes_by_component(directory)[component]


def processes_by_component(directory: Path) -> Mapping[str, list[RecordedProcess]]:
    """The processes of every component that belong to the cluster, recorded or not."""
    # On its way into the cluster's namespaces one is not yet what it will be; nor are others,
    # which began a moment before and must not be taken for it.
    seen = processes.scan_processes(directory, through=kernel_namespaces.ENTER_PROGRAM)
    found: dict[str, list[RecordedProcess]] = {
        component: [] for component in components.all_components()
    }
    for pid, names in seen:
        process = processes.inspect_process(pid)
        for component, its in found.items():
            if process is not None and commands.process_name(component) in names:
                its.append(process)
    return found


def is_ready(now: ClusterState, component: str, directory: Path) -> bool:
    """Whether `component` does what the next one needs of it."""
    return _readiness_check(now, component, directory)()


def _readiness_check(now: ClusterState, component: str, directory: Path) -> Callable[[], bool]:
    """The question whether `component` is ready; keys are read once, however often it is put."""
    if component == components.ETCD:
        return lambda: _etcd_is_healthy(now, directory)
    if component == components.CONTAINERD:
        return lambda: containerd.is_serving(directory)
    if component == components.SCHEDULER:
        return lambda: not _is_free(now, now.ports[component], directory)
    if component == components.POLICIES:
        return lambda: bootstrap.is_in_force(directory, now.processes[component].pid)
    if component == components.PROXY and now.node:
        address = f"{Slot(now.node.slot).node_address}:{now.ports[component]}"
        return lambda: http_probe.server_is_healthy(f"http://{address}")
    api = http_probe.ApiProbe(components.server_url(now), directory / "pki")
    if component == components.KUBELET:
        return lambda: _kubelet_is_ready(now, api, directory)
    path = "/readyz" if component == components.API_SERVER else _DEFAULT_ACCOUNT
    return lambda: api.request(path).ok


def _kubelet_is_ready(now: ClusterState, api: http_probe.ApiProbe, directory: Path) -> bool:
    # A node stays Ready for a while after its kubelet died.
    listens = not _is_free(now, now.ports[components.KUBELET], directory)
    return listens and http_probe.node_is_ready(api, now.name)


def _etcd_is_healthy(now: ClusterState, directory: Path) -> bool:
    url = components.etcd_url(now)
    if now.node is None:
        return http_probe.etcd_is_healthy(url)
    return kernel_namespaces.run_in_network(directory, lambda: http_probe.etcd_is_healthy(url))


def wait_until_ready(now: ClusterState, component: str, directory: Path) -> None:
    """Wait until `component` is ready; an early death is told with its last words."""
    _poll_until_ready(_readiness_check(now, component, directory), now, component, directory)


def _poll_until_ready(
    ready: Callable[[], bool], now: ClusterState, component: str, directory: Path
) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ready():
        if not is_running(now, component, directory):
            how = processes.describe_exit(now.processes[component])
            raise component_failure(now, component, directory, f"ended {how} while it was starting")
        if time.monotonic() > deadline:
            missing = _describe_node_problem(now, component, directory)
            problem = f"was not ready after {READY_SECONDS:.0f} s{missing}"
            raise component_failure(now, component, directory, problem)
        time.sleep(_POLL_SECONDS)


def _describe_node_problem(now: ClusterState, component: str, directory: Path) -> str:
    """What a component that lives still lacks, as far as somebody says so."""
    if component != components.KUBELET:
        return ""
    api = http_probe.ApiProbe(components.server_url(now), directory / "pki")
    return f": {redactor.clean(http_probe.node_problem(api, now.name), limit=600)}"


def component_failure(
    now: ClusterState, component: str, directory: Path, problem: str
) -> WindlassError:
    """The error for a component, with its words and those of others that have died."""
    dead = [one for one in now.processes if not is_running(now, one, directory)]
    speakers = dict.fromkeys([component, *dead])
    said = [_log_tail(one, log_file(directory, one)) for one in speakers]
    return failure_report.component_failed(
        f"{component} of cluster {now.name!r} {problem}", now.name, said
    )


def _log_tail(component: str, log: Path) -> failure_report.LogTail:
    return failure_report.LogTail(component, log, last_lines(log, failure_report.LOG_LINES))


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
