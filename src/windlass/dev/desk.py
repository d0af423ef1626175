"""A running cluster in the hands of whoever works with it.

Its methods block; inside an event loop they belong into a thread. Everything they read
comes from the state directory, so a desk may be used from any process.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base import atomic
from windlass.base.errors import WindlassError
from windlass.dev import (
    certificates,
    components,
    kubeconfig,
    launch,
    lock,
    places,
    probe,
    state,
    tools,
)
from windlass.dev.certificates import Pair
from windlass.dev.progress import Progress, Silent
from windlass.dev.state import State


@dataclass(frozen=True, slots=True)
class Desk:
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
    def api(self) -> probe.ApiProbe:
        return probe.ApiProbe(self.server, self.directory / "pki")

    def issue(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A fresh client certificate for `user`."""
        authority = certificates.read(self.directory / "pki", "ca")
        return certificates.client(authority, user, groups)

    def user_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig, readable by its owner alone, that acts as `user` in `groups`."""
        pair = self.issue(user, groups)
        places.make_private(self.directory / "users")
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
            launch.revive(now, components.API_SERVER, self.directory)

    def restart_api_server(self) -> None:
        """SIGKILL the API server and bring it back on the same port."""
        self.stop_api_server()
        self.start_api_server()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[State]:
        with locked(self.name, Silent()):
            now = state.load(self.directory)
            if now is None:
                raise missing(self.name)
            yield now


def of(now: State, directory: Path) -> Desk:
    """The desk of a state."""
    return Desk(
        name=now.name,
        directory=directory,
        server=components.server(now),
        kubectl=Path(now.binaries[tools.KUBECTL.name]),
        etcd_url=components.etcd_url(now),
        host=components.host(now),
    )


def named(name: str) -> Desk:
    """The desk of the cluster `name`, which must have been brought up."""
    directory = places.directory(name)
    now = state.load(directory)
    if now is None:
        raise missing(name)
    return of(now, directory)


def missing(name: str) -> WindlassError:
    """There is no such cluster."""
    option = "" if name == places.DEFAULT_NAME else f" --name {name}"
    return WindlassError(
        "ClusterMissing", f"there is no cluster {name!r}; `windlass dev up{option}` makes it"
    )


@contextlib.contextmanager
def locked(name: str, progress: Progress) -> Iterator[None]:
    """Be the only one who changes the cluster `name`."""
    places.make_private(places.state_root())

    def waiting(holder: str) -> None:
        progress.say(f"waiting: {holder} is changing cluster {name!r}")

    with lock.held(places.lock_file(name), waiting=waiting):
        yield


def write_kubeconfig(desk: Desk, path: Path, user: str, pair: Pair) -> None:
    """Write a kubeconfig that holds `pair`, for its owner's eyes only."""
    authority = (desk.directory / "pki" / "ca.crt").read_bytes()
    text = kubeconfig.render(
        name=desk.name,
        server=desk.server,
        authority=authority,
        user=user,
        pair=pair,
        webhook_host=desk.host,
    )
    atomic.write_bytes(path, text.encode(), mode=0o600)


def _file_name(user: str, groups: Sequence[str]) -> str:
    # Users may hold slashes and colons; the digest keeps different identities apart.
    digest = hashlib.sha256("\0".join([user, *groups]).encode()).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9.-]+', '-', user)[:40].strip('.-')}-{digest}"
