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
"""How long a component may take to become ready."""

_POLL_SECONDS = 0.05
_PORT_SECONDS = 5.0
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
_UNUSED_ACCOUNT = "/api/v1/namespaces/kube-public/serviceaccounts/default"
"""Deleted before a controller manager starts: where it exists, this one has created it."""


def log_file(directory: Path, component: str) -> Path:
    """The file that receives stdout and stderr of `component`."""
    return directory / "logs" / f"{component}.log"


def is_running(state: ClusterState, component: str, directory: Path) -> bool:
    """Whether the recorded process of `component` is alive."""
    process = state.processes.get(component)
    return process is not None and processes.is_alive(process, directory)


def start(state: ClusterState, component: str, directory: Path) -> ClusterState:
    """Start `component` on its port; save and return the state that records it."""
    if component in state.ports:
        _wait_for_free_port(state, component, directory)
    log = log_file(directory, component)
    log.parent.mkdir(mode=0o700, exist_ok=True)
    failpoint.reach(f"dev.spawn.{component}.before")
    process = processes.spawn(
        components.command_line(component, state, directory),
        directory=directory,
        log=log,
        enter=kernel_namespaces.enter_command(directory) if state.node else (),
        path=state.node.path if state.node else "",
    )
    failpoint.reach(f"dev.spawn.{component}.after")
    state = state.with_process(component, process)
    cluster_state.save_state(directory, state)
    failpoint.reach(f"dev.record.{component}.after")
    return state


def _wait_for_free_port(state: ClusterState, component: str, directory: Path) -> None:
    # A killed process shows as a zombie while its threads still hold the socket.
    port, deadline = state.ports[component], time.monotonic() + _PORT_SECONDS
    while not _is_free(state, port, directory):
        if time.monotonic() > deadline:
            raise WindlassError(
                "PortTaken",
                f"port {port} of {component} is in use by another program; stop it, or run "
                f"`windlass dev down --name {state.name}` and `up` again to choose other ports",
            )
        time.sleep(_POLL_SECONDS)


def _is_free(state: ClusterState, port: int, directory: Path) -> bool:
    if state.node is None:
        return ports.is_free(port)
    return kernel_namespaces.run_in_network(directory, lambda: ports.is_free(port, ""))


def start_and_wait(state: ClusterState, component: str, directory: Path) -> ClusterState:
    """Start `component` unless it runs, and wait until it is ready."""
    state = ensure_running(state, component, directory)
    wait_until_ready(state, component, directory)
    return state


def ensure_running(state: ClusterState, component: str, directory: Path) -> ClusterState:
    """Start `component` unless it runs."""
    if is_running(state, component, directory):
        return state
    # An `up` that was killed between start and record left a process that no state names.
    state = stop(state, component, directory)
    if component == components.CONTROLLER_MANAGER:
        _api_probe(state, directory).request(_UNUSED_ACCOUNT, method="DELETE")
    return start(state, component, directory)


def stop(state: ClusterState, component: str, directory: Path) -> ClusterState:
    """SIGKILL `component` and wait for its end; its port and data stay."""
    process = state.processes.get(component)
    victims = [] if process is None else [process]
    processes.kill_processes([*victims, *component_processes(component, directory)], directory)
    state = state.with_process(component, None)
    cluster_state.save_state(directory, state)
    return state


def component_processes(component: str, directory: Path) -> list[RecordedProcess]:
    """Processes of `component` that belong to the cluster, recorded or not."""
    return processes_by_component(directory)[component]


def processes_by_component(directory: Path) -> Mapping[str, list[RecordedProcess]]:
    """The processes of every component that belong to the cluster, recorded or not."""
    # `nsenter` becomes the component a moment after its start; until then only what follows
    # `--` on its command line tells which component it will be.
    candidates = processes.scan_processes(directory, through=kernel_namespaces.ENTER_PROGRAM)
    by_component: dict[str, list[RecordedProcess]] = {
        component: [] for component in components.all_components()
    }
    for pid, names in candidates:
        process = processes.inspect_process(pid)
        for component, members in by_component.items():
            if process is not None and commands.process_name(component) in names:
                members.append(process)
    return by_component


def is_ready(state: ClusterState, component: str, directory: Path) -> bool:
    """Whether `component` provides what the components after it need."""
    return _readiness_check(state, component, directory)()


def _readiness_check(state: ClusterState, component: str, directory: Path) -> Callable[[], bool]:
    """A function that checks `component` once; keys are read here, not at each call."""
    if component == components.ETCD:
        return lambda: _etcd_is_healthy(state, directory)
    if component == components.CONTAINERD:
        return lambda: containerd.is_serving(directory)
    if component == components.SCHEDULER:
        return lambda: _scheduler_is_listening(state, directory)
    if component == components.POLICIES:
        return lambda: bootstrap.is_in_force(directory, state.processes[component].pid)
    if component == components.PROXY and state.node:
        address = f"{Slot(state.node.slot).node_address}:{state.ports[component]}"
        return lambda: http_probe.get(f"http://{address}", "/healthz").ok
    api = _api_probe(state, directory)
    if component == components.KUBELET and state.node:
        address = Slot(state.node.slot).node_address
        return lambda: _kubelet_is_ready(state, api, address)
    if component == components.API_SERVER:
        return lambda: api.request("/readyz").ok
    # The controller manager shows no readiness of its own, only what it does; the account in
    # the default namespace may be the work of its predecessor.
    return lambda: api.request(_UNUSED_ACCOUNT).ok and api.request(_DEFAULT_ACCOUNT).ok


def _api_probe(state: ClusterState, directory: Path) -> http_probe.ApiProbe:
    return http_probe.ApiProbe(components.server_url(state), directory / "pki")


def _scheduler_is_listening(state: ClusterState, directory: Path) -> bool:
    port = state.ports[components.SCHEDULER]
    return kernel_namespaces.run_in_network(
        directory, lambda: ports.is_listening(port, "127.0.0.1")
    )


def _kubelet_is_ready(state: ClusterState, api: http_probe.ApiProbe, address: str) -> bool:
    if not ports.is_listening(state.ports[components.KUBELET], address):
        return False
    # A node stays Ready for a while after its kubelet died, and is not when the next one reports
    # before it has seen its pods: only what this kubelet reported counts.
    since = state.processes[components.KUBELET].since
    return http_probe.node_is_ready(api, state.name, since)


def _etcd_is_healthy(state: ClusterState, directory: Path) -> bool:
    url = components.etcd_url(state)
    if state.node is None:
        return http_probe.etcd_is_healthy(url)
    return kernel_namespaces.run_in_network(directory, lambda: http_probe.etcd_is_healthy(url))


def wait_until_ready(state: ClusterState, component: str, directory: Path) -> None:
    """Wait until `component` is ready; raise with the end of its log if it dies before that."""
    _poll_until_ready(_readiness_check(state, component, directory), state, component, directory)


def _poll_until_ready(
    is_ready: Callable[[], bool], state: ClusterState, component: str, directory: Path
) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready():
        if not is_running(state, component, directory):
            exit_description = processes.describe_exit(state.processes[component])
            raise component_failure(
                state, component, directory, f"exited {exit_description} during startup"
            )
        if time.monotonic() > deadline:
            detail = _describe_node_problem(state, component, directory)
            problem = f"not ready after {READY_SECONDS:.0f} s{detail}"
            raise component_failure(state, component, directory, problem)
        time.sleep(_POLL_SECONDS)


def _describe_node_problem(state: ClusterState, component: str, directory: Path) -> str:
    """Why the node is not Ready, as its condition reports; empty for other components."""
    if component != components.KUBELET:
        return ""
    api = _api_probe(state, directory)
    return f": {redactor.clean(http_probe.node_problem(api, state.name), limit=600)}"


def component_failure(
    state: ClusterState, component: str, directory: Path, problem: str
) -> WindlassError:
    """The error for `component`, with the end of its log and of those of other dead components."""
    dead = [name for name in state.processes if not is_running(state, name, directory)]
    reported = dict.fromkeys([component, *dead])
    tails = [_log_tail(name, log_file(directory, name)) for name in reported]
    return failure_report.component_failed(
        f"{component} of cluster {state.name!r} {problem}", state.name, tails
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
