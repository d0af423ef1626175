"""A second replica of the operator."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes import windlass_command
from tests.support.processes.operator import Operator, free_port
from windlass.api.install.installation import Installation
from windlass_dev.cluster import installer
from windlass_dev.cluster.local_cluster import LocalCluster


@functools.cache
def operator_kubeconfig(cluster: LocalCluster) -> Path:
    """Install windlass; the kubeconfig with exactly the operator's rights."""
    return asyncio.run(
        installer.install(cluster, Installation("windlass", "windlass-system"))
    ).kubeconfig


class Candidate(Operator):
    """`windlass controller` with ports and stores of its own.

    Its webhook is not the registered one, so what it writes has no proven author. `command` may
    stand in for `windlass`.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        directory: Path,
        kubeconfig: Path,
        *flags: str,
        command: Sequence[str] = (),
    ) -> None:
        super().__init__(cluster, directory, *flags, authors=False)
        if command:
            self._starting = functools.partial(windlass_command.start_executable, command=command)
        self.stores = directory / "stores"
        self._kubeconfig = kubeconfig

    def _arguments(self) -> list[str]:
        return [
            "controller",
            f"--kubeconfig={self._kubeconfig}",
            f"--health-probe-bind-address=127.0.0.1:{self._probe_port}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
            # A new one each time: the child of a killed one may still listen for a moment.
            f"--webhook-bind-address=127.0.0.1:{free_port()}",
            "--webhook-certificate-addresses=127.0.0.1",
            f"--work-dir={self.stores}",
            "--git-insecure-hosts=127.0.0.1",
            *self._flags,
        ]

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None
