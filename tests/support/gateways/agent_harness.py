"""The real agent as a process, beside a mock gateway; a test publishes what a controller would."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.support.gateways import mock_gateway as gateways
from tests.support.gateways.engine_harness import SERVICE, SITE, read_files
from tests.support.gateways.mock_gateway import TOKEN, RunningGateway
from tests.support.git import http_server
from tests.support.git.http_server import RunningGitServer, branch_tips, commit_files
from tests.support.processes import windlass_command
from tests.support.processes.operator import eventually, free_port
from tests.support.processes.polling import DEADLINE_SECONDS
from tests.support.reverser.api_users import ApiUser
from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.gateways.volume.state_directory import AGENT_STATE_PATH
from windlass.gateways.wire import agent_objects, agent_report, metadata_builder, routing
from windlass.gateways.wire import metadata as metadatas
from windlass.gateways.wire.agent_objects import ObjectOwner
from windlass.gateways.wire.agent_report import AgentReport
from windlass.gateways.wire.metadata import AgentMetadata, StatusObject
from windlass.gateways.wire.metadata_builder import MetadataInputs
from windlass.gateways.wire.routing import ANNOTATION_PREFIX
from windlass_dev.cluster.local_cluster import LocalCluster

CR = "site"
POD = "site-0"
LABELS = {"app.kubernetes.io/name": "site"}
SETTLED = ("Synced", "Error", "Paused", "DryRun")


class ApiRelay:
    """A relay to the API server whose connections can be cut and restored."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._pumps: list[threading.Thread] = []
        self._is_cut = False
        self._changing = threading.Lock()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        with self._changing:
            self._is_cut = True
            for connection in self._open:
                _end(connection)

    def restore(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        """Close everything; no thread and no socket is left to the garbage collector."""
        self.cut()
        # Closing alone does not wake the thread that waits in accept().
        _end(self._listener)
        self._accepting.join(DEADLINE_SECONDS)
        self._listener.close()
        for pump in self._pumps:
            pump.join(DEADLINE_SECONDS)
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            if not self._is_cut:
                self._connect(client)
            else:
                _end(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, timeout=DEADLINE_SECONDS)
        except OSError:
            _end(client)
            return
        server.settimeout(None)
        with self._changing:
            self._open.append(server)
            if self._is_cut:
                # It was cut while we connected.
                _end(client)
                _end(server)
                return
            for source, sink in ((client, server), (server, client)):
                pump = threading.Thread(target=_pump, args=(source, sink), daemon=True)
                pump.start()
                self._pumps.append(pump)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for connection in (source, sink):
        _end(connection)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class AgentRun:
    """`windlass agent` with its probes."""

    def __init__(self, environment: Mapping[str, str], log: Path, kubeconfig: Path) -> None:
        self.log = log
        self._environment = environment
        self._kubeconfig = kubeconfig
        self._process: windlass_command.StartedProcess | None = None
        self.starting: windlass_command.Starting = windlass_command.start
        self.health_port = free_port()
        self.metrics_port = free_port()
        self.plan_port = free_port()

    def start(self, **environment: str) -> None:
        self._process = self.starting(
            [
                "agent",
                f"--kubeconfig={self._kubeconfig}",
                f"--health-probe-bind-address=127.0.0.1:{self.health_port}",
                f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
                f"--plan-port={self.plan_port}",
                "--log-format=json",
            ],
            {**os.environ, **self._environment, **environment},
            self.log,
        )

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> int:
        """Send a signal and wait for the process to end."""
        self.send(number)
        return self.wait()

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def kill(self) -> None:
        if self.is_alive:
            self.signal(signal.SIGKILL)

    def probe(self, path: str) -> tuple[int, str]:
        return _get(f"http://127.0.0.1:{self.health_port}{path}")

    @property
    def may_start(self) -> bool:
        """Whether the gateway may start."""
        return self.probe("/startupz")[0] == 200

    def metric(self, name: str) -> float:
        status, text = _get(f"http://127.0.0.1:{self.metrics_port}/metrics")
        assert status == 200, text
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    @property
    def plan(self) -> Any:
        """The newest plan as the agent serves it."""
        return json.loads(_get(f"http://127.0.0.1:{self.plan_port}/plan")[1])


def _get(url: str) -> tuple[int, str]:
    """Status and text; status 0 where nothing listens."""
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as response:  # noqa: S310
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except TimeoutError:
        # Not status 0: a test would take it for a closed gate, or for a counter at zero.
        raise
    except (urllib.error.URLError, OSError) as error:
        return 0, str(error)


def write_pod_info(
    directory: Path, annotations: Mapping[str, str], labels: Mapping[str, str]
) -> None:
    """Replace what the downward API mounts into an agent's container."""
    folder = directory / "podinfo"
    folder.mkdir(exist_ok=True)
    for name, values in (("annotations", annotations), ("labels", labels)):
        text = "".join(f"{key}={json.dumps(value)}\n" for key, value in values.items())
        (folder / f"{name}.new").write_text(text)
        (folder / f"{name}.new").rename(folder / name)


def agent_environment(
    directory: Path, namespace: str, pod_name: str, pod_uid: str
) -> dict[str, str]:
    """The variables of an agent's container, with everything that is mounted in `directory`."""
    return {
        "POD_NAME": pod_name,
        "POD_UID": pod_uid,
        "POD_NAMESPACE": namespace,
        "NODE_NAME": "node-a",
        "CR_NAME": CR,
        "DATA_PATH": str(directory / "data"),
        "STORE_PATH": str(directory / "store"),
        "RUN_PATH": str(directory / "run"),
        "POD_INFO_PATH": str(directory / "podinfo"),
        "API_KEY_FILE": str(directory / "apiKey"),
        "GIT_AUTH_PATH": str(directory / "git-auth"),
        "GIT_CA_PATH": str(directory / "git-ca"),
        "GATEWAY_CA_FILE": str(directory / "no-ca"),
        "GIT_INSECURE_HOSTS": "127.0.0.1",
    }


@dataclass
class AgentHarness:
    """The environment of one pod: cluster objects, mounted files, repository, gateway."""

    cluster: LocalCluster
    namespace: str
    directory: Path
    served: RunningGitServer
    gateway: RunningGateway
    data: Path
    relay: ApiRelay
    pod_uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    spec: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    cr_annotations: dict[str, str] = field(default_factory=dict)
    repository_name: str = "site"

    def __post_init__(self) -> None:
        self.admin = ApiUser(self.cluster, "admin", self.namespace)
        self.repository = self.served.create(self.repository_name, SITE)
        self.annotate_pod(service_path=SERVICE)
        self.token_file = self.directory / "apiKey"
        self.token_file.write_text(TOKEN)
        self._create_rights()
        self.create_status_object()
        environment = agent_environment(self.directory, self.namespace, POD, self.pod_uid)
        self.agent = AgentRun(environment, self.directory / "agent.log", self._config())

    # the cluster

    @property
    def status_name(self) -> str:
        return agent_objects.status_name(self.pod_uid)

    def create_status_object(self) -> None:
        """As the controller does for every pod that it discovers."""
        self.admin.apply(_config_map(self.status_name, self.namespace))

    @property
    def metadata(self) -> AgentMetadata:
        """What the controller would publish now."""
        cr = IgnitionSync.decode(json.dumps(self._document()).encode())
        uid = self.admin.get("configmaps", self.status_name)["metadata"]["uid"]
        source = metadata_builder.build_source(
            cr.spec, self.served.server.url(self.repository_name), "main", self.tip
        )
        inputs = MetadataInputs(
            routing=metadata_builder.build_routing(cr.spec, ""),
            source=source,
            status_objects={POD: StatusObject(self.status_name, uid)},
            operator_version="test",
        )
        built = dataclasses.replace(metadata_builder.build_metadata(cr, inputs), **self.changes)
        return dataclasses.replace(built, policy=_with(built.policy, self.policy))

    def publish(self, **changes: Any) -> AgentMetadata:
        """Publish the metadata; `changes` stay in effect."""
        self.changes |= changes
        published = self.metadata
        document = _config_map(agent_objects.metadata_name(CR), self.namespace)
        self.admin.apply({**document, "data": metadatas.encode(published)})
        return published

    def push(self, files: Mapping[str, str | None]) -> str:
        """Commit and publish."""
        commit = commit_files(self.repository, files)
        self.publish()
        return commit

    @property
    def tip(self) -> str:
        return branch_tips(self.repository)["main"]

    @property
    def report(self) -> AgentReport | None:
        """The agent's report, as the controller reads it."""
        data = self.admin.get("configmaps", self.status_name).get("data") or {}
        return agent_report.decode(data[POD]) if POD in data else None

    def await_report(
        self, what: str, *, seconds: float = DEADLINE_SECONDS, **fields: Any
    ) -> AgentReport:
        """The first report that has these fields."""
        last: list[AgentReport | None] = [None]

        def matching_report() -> AgentReport | None:
            last[0] = report = self.report
            matches = report is not None and all(
                getattr(report, name) == value for name, value in fields.items()
            )
            return report if matches else None

        try:
            report = eventually(matching_report, what, seconds=seconds)
        except AssertionError as error:
            tail = self.agent.log.read_text()[-3000:]
            raise AssertionError(f"{error}\nreport: {last[0]}\nlog: {tail}") from None
        assert report is not None
        return report

    def await_synced(self, commit: str = "", **fields: Any) -> AgentReport:
        """The report of a gateway with the published commit and routing."""
        profile_hash = routing.hash_profile(self.metadata.routing_hash, self._annotations(), LABELS)
        return self.await_report(
            "synced",
            sync_status="Synced",
            synced_commit=commit or self.tip,
            profile_hash=profile_hash,
            **fields,
        )

    def await_booted(self) -> None:
        """Wait for the agent's check after the gateway's first boot; until then it repairs."""

        def is_checked() -> bool:
            return not json.loads((self.data / AGENT_STATE_PATH).read_bytes()).get("boots")

        eventually(is_checked, "the check after the first boot")

    # the pod

    def annotate_pod(self, **annotations: str) -> None:
        """Change the pod's annotations, underscores standing for dashes."""
        self.annotations |= annotations
        write_pod_info(self.directory, self._annotations(), LABELS)

    @property
    def files(self) -> dict[str, bytes]:
        return read_files(self.data)

    def _annotations(self) -> dict[str, str]:
        return {
            ANNOTATION_PREFIX + key.replace("_", "-"): text
            for key, text in self.annotations.items()
        }

    def _document(self) -> dict[str, Any]:
        port = urlsplit(self.gateway.url).port
        return {
            "metadata": {
                "name": CR,
                "namespace": self.namespace,
                "annotations": {ANNOTATION_PREFIX + k: v for k, v in self.cr_annotations.items()},
            },
            "spec": {
                "git": {"repo": self.served.server.url(self.repository_name), "ref": "main"},
                "gateway": {"apiKeySecretRef": {"name": "key"}, "port": port, "tls": False},
                **self.spec,
            },
        }

    def _create_rights(self) -> None:
        owner = ObjectOwner("v1", "ConfigMap", self.namespace, CR, "")
        role = agent_objects.agent_role(owner, [self.status_name])
        binding = agent_objects.agent_role_binding(owner, [])
        binding["subjects"] = [
            {"kind": "User", "name": self._user, "apiGroup": "rbac.authorization.k8s.io"}
        ]
        for document in (role, binding):
            document["metadata"].pop("ownerReferences")
            self.admin.apply(document)

    @property
    def _user(self) -> str:
        return f"agent-{self.namespace}"

    def _config(self) -> Path:
        document = yaml.safe_load(self.cluster.user_kubeconfig(self._user).read_text())
        document["clusters"][0]["cluster"]["server"] = self.relay.url
        path = self.directory / "agent.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path


@contextlib.contextmanager
def agent_harness(cluster: LocalCluster, namespace: str, directory: Path) -> Iterator[AgentHarness]:
    """A harness whose agent is not started yet, and is killed afterwards."""
    data = directory / "data"
    data.mkdir()
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(http_server.running_git_server(directory / "srv"))
        gateway = stack.enter_context(gateways.running_gateway(data, token=TOKEN))
        relay = ApiRelay(cluster.server)
        stack.callback(relay.close)
        harness = AgentHarness(cluster, namespace, directory, served, gateway, data, relay)
        stack.callback(harness.agent.kill)
        yield harness


def unchanged_for(seconds: float, read: Any) -> bool:
    """Whether `read` returns the same value for so long."""
    first, end = read(), time.monotonic() + seconds
    while time.monotonic() < end:
        if read() != first:
            return False
        time.sleep(0.05)
    return True


def _config_map(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _with(policy: metadatas.SyncPolicy, changes: Mapping[str, Any]) -> metadatas.SyncPolicy:
    from msgspec import structs

    return structs.replace(policy, **changes)
