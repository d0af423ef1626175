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
    """A cluster by name: where it listens, who may enter, and how to hurt it in a test."""

    name: str
    directory: Path
    server: str
    kubectl: Path
    etcd_url: str
    host: str
    """This machine as the cluster sees it: where webhooks and git servers are called."""

    @property
    def admin_kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"

    @property
    def api(self) -> http_probe.ApiProbe:
        return http_probe.ApiProbe(self.server, self.directory / "pki")

    def issue_client_pair(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A fresh client certificate for `user`."""
        authority = pki.read_pair(self.directory / "pki", "ca")
        return pki.issue_client_pair(authority, user, groups)

    def user_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig, readable by its owner alone, that acts as `user` in `groups`."""
        pair = self.issue_client_pair(user, groups)
        directories.ensure_private(self.directory / "users")
        path = self.directory / "users" / f"{_file_name(user, groups)}.kubeconfig"
        write_kubeconfig(self, path, user, pair)
        return path

    def stop_api_server(self) -> None:
        """SIGKILL the API server and leave it dead."""
        with self._locked() as now:
            launch.stop(now, components.API_SERVER, self.directory)

    def start_api_server(self) -> None:
        """Start the API server again on its port; returns when it is ready."""
        with self._locked() as now:
            launch.start_and_wait(now, components.API_SERVER, self.directory)

    def restart_api_server(self) -> None:
        """SIGKILL the API server and bring it back on the same port."""
        self.stop_api_server()
        self.start_api_server()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[ClusterState]:
        with lock_cluster(self.name, SilentReporter()):
            now = cluster_state.load_state(self.directory)
            if now is None:
                raise cluster_missing_error(self.name)
            yield now


def from_state(now: ClusterState, directory: Path) -> LocalCluster:
    """The desk of a state."""
    return LocalCluster(
        name=now.name,
        directory=directory,
        server=components.server_url(now),
        kubectl=Path(now.binaries[tools.KUBECTL.name]),
        etcd_url=components.etcd_url(now),
        host=components.host_address(now),
    )


def get_cluster(name: str) -> LocalCluster:
    """The desk of the cluster `name`, which must have been brought up."""
    directory = directories.cluster_directory(name)
    now = cluster_state.load_state(directory)
    if now is None:
        raise cluster_missing_error(name)
    return from_state(now, directory)


def cluster_missing_error(name: str) -> WindlassError:
    """There is no such cluster."""
    option = "" if name == directories.DEFAULT_NAME else f" --name {name}"
    return WindlassError(
        "ClusterMissing", f"there is no cluster {name!r}; `windlass dev up{option}` makes it"
    )


@contextlib.contextmanager
def lock_cluster(name: str, progress: ProgressReporter) -> Iterator[None]:
    """Be the only one who changes the cluster `name`."""
    directories.ensure_private(directories.state_root())

    def waiting(holder: str) -> None:
        progress.report(f"waiting: {holder} is changing cluster {name!r}")

    with file_lock.hold(directories.lock_file(name), waiting=waiting):
        yield


def write_kubeconfig(desk: LocalCluster, path: Path, user: str, pair: KeyPair) -> None:
    """Write a kubeconfig that holds `pair`, for its owner's eyes only."""
    authority = (desk.directory / "pki" / "ca.crt").read_bytes()
    text = kubeconfig.render_kubeconfig(
        name=desk.name,
        server=desk.server,
        authority=authority,
        user=user,
        pair=pair,
        webhook_host=desk.host,
    )
    files.write_atomically(path, text.encode(), mode=0o600)


def _file_name(user: str, groups: Sequence[str]) -> str:
    # Users may hold slashes and colons; the digest keeps different identities apart.
    digest = hashlib.sha256("\0".join([user, *groups]).encode()).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9.-]+', '-', user)[:40].strip('.-')}-{digest}"
