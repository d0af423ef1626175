"""The NetworkPolicy enforcer as a process of a cluster, in that cluster's network namespace."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from windlass.kube.connection import Connection
from windlass.telemetry import logs
from windlass_dev.netpol import bootstrap
from windlass_dev.netpol.enforcer import Enforcer


def main() -> None:
    """Run the enforcer until it is killed."""
    parser = argparse.ArgumentParser(prog="network-policies")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--pods", required=True)
    arguments = parser.parse_args()
    logs.configure("json", "info")
    bootstrap.clear_in_force(arguments.directory)
    asyncio.run(_enforce(arguments.kubeconfig, arguments.directory, arguments.pods))


async def _enforce(kubeconfig: Path, directory: Path, pods: str) -> None:
    async with Connection.open(kubeconfig=kubeconfig) as connection:
        await Enforcer(connection, directory, pods).run()


if __name__ == "__main__":
    main()
