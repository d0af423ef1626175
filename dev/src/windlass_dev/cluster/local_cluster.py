"""`LocalCluster`: addresses, kubeconfigs and control of one running local cluster.

Its methods block; inside an event loop they belong into a thread. Everything they read
comes from the state directory, so a LocalCluster may be used from any process.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass_dev import directories, file_lock
from windlass_dev.cluster import cluster_state, components, http_probe, kubeconfig, launch, pki
from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.cluster.pki import KeyPair
from windlass_dev.programs import tools
from windlass_dev.progress import ProgressReporter, SilentReporter


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """A local cluster: its addresses, its kubeconfigs, and its API server to stop and start."""

    name: str
    """The name given to `windlass dev up`."""
    directory: Path
    """Its state directory: state file, keys, kubeconfigs, logs."""
    server: str
    """The URL of the API server."""
    kubectl: Path
    """A kubectl of the cluster's version."""
    etcd_url: str
    """The URL of its etcd; with a node reachable only inside the cluster's network."""
    host: str
    """The address of this machine as seen from the cluster: for webhooks and git servers."""

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of the administrator (`system:masters`)."""
        return self.directory / "admin.kubeconfig"

    @property
    def api(self) -> http_probe.ApiProbe:
        """Requests to the API server as its administrator, without a Kubernetes client."""
        return http_probe.ApiProbe(self.server, self.directory / "pki")

    def issue_client_pair(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a client certificate for `user` in `groups`."""
        authority = pki.read_pair(self.directory / "pki", "ca")
        return pki.issue_client_pair(authority, user, groups)

    def user_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig, readable by its owner alone, that acts as `user` in `groups`."""
        pair = self.issue_client_pair(user, groups)
        directories.ensure_private(self.directory / "users")
        path = self.directory / "users" / f"{_file_name(user, groups)}.kubeconfig"
        write_kubeconfig(self, path, user, pair)
        return path

    def stop_api_server(self) -> None:
        """SIGKILL the API server and leave it dead."""
        with self._locked() as state:
            launch.stop(state, components.API_SERVER, self.directory)

    def start_api_server(self) -> None:
        """Start the API server again on its port; return when it is ready."""
        with self._locked() as state:
            launch.start_and_wait(state, components.API_SERVER, self.directory)

    def restart_api_server(self) -> None:
        """SIGKILL the API server and bring it back on the same port."""
        self.stop_api_server()
        self.start_api_server()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[ClusterState]:
        """Hold the cluster's lock and yield its current state."""
        with lock_cluster(self.name, SilentReporter()):
            state = cluster_state.load_state(self.directory)
            if state is None:
                raise cluster_missing_error(self.name)
            yield state


def from_state(state: ClusterState, directory: Path) -> LocalCluster:
    """The cluster that `state` describes, in `directory`."""
    return LocalCluster(
        name=state.name,
        directory=directory,
        server=components.server_url(state),
        kubectl=Path(state.binaries[tools.KUBECTL.name]),
        etcd_url=components.etcd_url(state),
        host=components.host_address(state),
    )


def get_cluster(name: str) -> LocalCluster:
    """The cluster `name`, running or not; `ClusterMissing` if it was never brought up."""
    directory = directories.cluster_directory(name)
    state = cluster_state.load_state(directory)
    if state is None:
        raise cluster_missing_error(name)
    return from_state(state, directory)


def cluster_missing_error(name: str) -> WindlassError:
    """The error for a cluster that does not exist."""
    option = "" if name == directories.DEFAULT_NAME else f" --name {name}"
    return WindlassError(
        "ClusterMissing", f"cluster {name!r} not found; create it with `windlass dev up{option}`"
    )


@contextlib.contextmanager
def lock_cluster(name: str, progress: ProgressReporter) -> Iterator[None]:
    """Hold the lock under which `up`, `down` and tests change the cluster `name`."""
    directories.ensure_private(directories.state_root())

    def report_holder(holder: str) -> None:
        progress.report(f"waiting: {holder} is changing cluster {name!r}")

    with file_lock.hold(directories.lock_file(name), on_wait=report_holder):
        yield


def write_kubeconfig(cluster: LocalCluster, path: Path, user: str, pair: KeyPair) -> None:
    """Write a kubeconfig that holds `pair`, readable by its owner alone."""
    authority = (cluster.directory / "pki" / "ca.crt").read_bytes()
    text = kubeconfig.render_kubeconfig(
        name=cluster.name,
        server=cluster.server,
        authority=authority,
        user=user,
        pair=pair,
        webhook_host=cluster.host,
    )
    files.write_atomically(path, text.encode(), mode=0o600)


def _file_name(user: str, groups: Sequence[str]) -> str:
    # User names may contain slashes and colons; the digest keeps different identities apart.
    digest = hashlib.sha256("\0".join([user, *groups]).encode()).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9.-]+', '-', user)[:40].strip('.-')}-{digest}"
