"""The operator as a process of its own, as a user would run it on a local cluster."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tests.support.cluster import dev_command
from tests.support.processes import windlass_command
from tests.support.processes.polling import DEADLINE_SECONDS, pauses
from windlass_dev.cluster import ports
from windlass_dev.cluster.local_cluster import LocalCluster

T = TypeVar("T")

_LOWEST_PORT = 11_000  # above those that Kubernetes has by default


def eventually(poll: Callable[[], T], what: str, *, seconds: float = DEADLINE_SECONDS) -> T:
    """The first true result of `poll`; fails with its last result after `seconds`."""
    end = time.monotonic() + seconds
    wait = pauses()
    while not (result := poll()):
        assert time.monotonic() < end, f"{what} did not happen in {seconds:g} s; last: {result!r}"
        time.sleep(next(wait))
    return result


class Operator:
    """`windlass run --dev` on a local cluster; may be killed and started again.

    Seconds pass after a start before authors can be proven; who asks for no authors does
    not wait for that.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        directory: Path,
        *flags: str,
        authors: bool = True,
        forked: bool = True,
    ) -> None:
        self.log = directory / "operator.log"
        self._cluster = cluster
        self._flags = flags
        self._authors = authors
        self._starting: windlass_command.Starting = (
            windlass_command.start if forked else windlass_command.start_executable
        )
        self._process: windlass_command.StartedProcess | None = None
        self._probe_port = free_port()
        self.metrics_port = free_port()

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start and wait until it is ready and, if configured, can prove authors."""
        self.spawn(environment)
        eventually(self._is_ready, "readiness", seconds=60.0)
        if self._authors:
            self.await_provable()

    def await_provable(self) -> None:
        """Wait until no record gap is recent: an earlier test may have cut admission off."""
        proves = "windlass_mirror_authors_provable"
        eventually(lambda: self.metric(proves) == 1.0, "provable authors")

    def spawn(self, environment: Mapping[str, str] | None = None) -> None:
        given = {**os.environ, **(environment or {})}
        self._process = self._starting(self._arguments(), given, self.log)

    def _arguments(self) -> list[str]:
        return [
            "run",
            "--dev",
            f"--kubeconfig={self._cluster.admin_kubeconfig}",
            f"--health-probe-bind-address=127.0.0.1:{self._probe_port}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
            *self._flags,
        ]

    @property
    def pid(self) -> int:
        assert self._process is not None, "the operator was started"
        return self._process.pid

    def _is_ready(self) -> bool:
        assert self._process is not None, "the operator was started"
        assert self._process.poll() is None, f"the operator ended:\n{self.log.read_text()[-4000:]}"
        return self.readiness()[0] == 200

    def readiness(self) -> tuple[int, str]:
        """Status and text of the readiness probe; 0 where no server answers."""
        try:
            url = f"http://127.0.0.1:{self._probe_port}/readyz"
            with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except TimeoutError:
            # Not status 0: a test would take a late answer for none.
            raise
        except OSError as error:
            return 0, str(error)

    def webhook_pid(self) -> int:
        """The pid of the admission webhook, a child process; 0 as long as there is none."""
        pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        lines = {int(pid): dev_command.command_line(pid) for pid in pids}
        return next((pid for pid, line in lines.items() if b"reverser.attribution" in line), 0)

    def metrics(self) -> str:
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
            text: bytes = answer.read()
        return text.decode()

    def metric(self, name: str) -> float:
        """The sum of all series of a metric."""
        lines = [line for line in self.metrics().splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def wait_for_exit(self, seconds: float = DEADLINE_SECONDS) -> int:
        assert self._process is not None, "the operator was started"
        return self._process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, as in a power cut; the webhook, which ends by itself, is gone as well.

        Until then it holds the port on which the next one listens.
        """
        webhook_pid = self.webhook_pid() if self._is_running() else 0
        self._signal(signal.SIGKILL)
        if webhook_pid:
            dev_command.wait_for_exit(webhook_pid)

    def stop(self) -> None:
        """SIGTERM and wait for a clean exit."""
        self._signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        assert self._process is not None, "the operator was started"
        os.kill(self._process.pid, number)

    def _signal(self, number: int) -> None:
        if self._is_running():
            self.signal(number)
            self.wait_for_exit()

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


def free_port() -> int:
    """A port that no other process gets before the operator listens on it, nor while it is down.

    It lies below what outgoing connections are given and what clusters choose from: a cluster
    that starts beside a test does not see which ports the test has in mind, nor the test those
    of components that do not listen yet. Another test run on this machine at the same time sees
    by a lock that it is taken, as long as this process lives.
    """
    (port,) = ports.choose_ports(
        1,
        taken=(),
        floor=_LOWEST_PORT,
        ceiling=ports.LOWEST,
        is_free=_reserve_port,
        rng=random.Random(),
    )
    return port


def _reserve_port(port: int) -> bool:
    """Reserve `port`; whether it was free."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        try:
            lock.bind(f"\0windlass-test-port-{port}")
        except OSError:
            return False
        if not ports.is_free(port):
            return False
        # The lock stays bound without an object to close.
        lock.detach()
    return True


@contextlib.contextmanager
def running_operator(
    cluster: LocalCluster, directory: Path, *flags: str, authors: bool = True, forked: bool = True
) -> Iterator[Operator]:
    """An operator that is ended afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    operator = Operator(cluster, directory, *flags, authors=authors, forked=forked)
    try:
        operator.start()
        yield operator
    finally:
        operator.kill()
