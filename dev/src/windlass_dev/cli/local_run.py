"""`windlass run --dev`: installs windlass into a local cluster and runs it there.

The operator is that of `windlass controller`; it differs by ordinary settings alone, which
`local_settings` chooses. Settings that the user gave are kept.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.app.settings import Settings
from windlass.app.settings_flags import accepts_settings
from windlass.cli.run import Kubeconfig

if TYPE_CHECKING:
    from windlass_dev.cluster.installer import InstalledOperator
    from windlass_dev.cluster.local_cluster import LocalCluster


@accepts_settings
def run(
    kubeconfig: Kubeconfig = None,
    dev: Annotated[
        bool,
        typer.Option("--dev", help="Install into a local cluster of `windlass dev up`, then run."),
    ] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the local cluster.")] = "dev",
    *,
    settings: Settings,
) -> None:
    """Install CRDs and roles into a local cluster, then run the operator with these roles."""
    import asyncio

    from windlass.telemetry import log_setup

    log_setup.load_structlog()
    from windlass.api.install.installation import Installation
    from windlass.app import controller as role
    from windlass.base.errors import WindlassError
    from windlass.telemetry import logs
    from windlass_dev.cluster import installer

    if not dev:
        raise WindlassError(
            "NotADesk",
            "`windlass run` requires --dev; to run in a cluster, use `windlass controller`",
        )
    cluster = _select_cluster(kubeconfig, name)
    logs.configure(format=settings.log_format, level=settings.log_level)
    installation = asyncio.run(
        installer.install(cluster, Installation(settings.release, settings.namespace))
    )
    typer.echo(
        f"installed windlass; running the operator as user {installer.OPERATOR_USER}", err=True
    )
    asyncio.run(role.run(local_settings(settings, installation), installation.kubeconfig))


def _select_cluster(kubeconfig: Path | None, name: str) -> LocalCluster:
    """The local cluster to use; the kubeconfig of any other cluster is refused, not ignored."""
    from windlass.base.errors import WindlassError
    from windlass_dev.cluster import local_cluster
    from windlass_dev.cluster.kubeconfig import read_extension

    given = kubeconfig or (Path(os.environ["KUBECONFIG"]) if os.environ.get("KUBECONFIG") else None)
    if given is None:
        return local_cluster.get_cluster(name)
    extension = read_extension(given)
    if extension is None:
        raise WindlassError(
            "NotADesk",
            f"kubeconfig {given} is not one of `windlass dev up`; --dev installs cluster-wide "
            "objects, so it refuses any other cluster. Unset KUBECONFIG, or run "
            '`eval "$(windlass dev env)"`',
        )
    return local_cluster.get_cluster(extension.name)


def local_settings(settings: Settings, installation: InstalledOperator) -> Settings:
    """`settings` with every default replaced that does not fit a local cluster."""
    from windlass.app.settings_forms import ListenAddress
    from windlass_dev.programs import provider, tools

    # The second is the address of this machine, and its git server, as seen from the cluster.
    addresses = {"127.0.0.1", installation.webhook_host}
    changes = _where_default(
        settings,
        {
            "metrics_bind_address": ListenAddress("127.0.0.1", 0),
            "health_probe_bind_address": ListenAddress("127.0.0.1", 0),
            "work_dir": installation.work_directory,
            "environments_helm": str(provider.find_tool(tools.HELM) or settings.environments_helm),
            "git_allow_file": True,
            # The lease of a dead process on this machine is free at once, whatever its duration.
            "leader_elect_retry_period": 1.0,
        },
    )
    return replace(
        settings,
        # The webhook configuration names this address, so no setting may change it.
        webhook_bind_address=ListenAddress(installation.webhook_host, installation.webhook_port),
        webhook_certificate_addresses=_added(settings.webhook_certificate_addresses, addresses),
        git_insecure_hosts=_added(settings.git_insecure_hosts, {*addresses, "localhost"}),
        **changes,
    )


def _where_default(settings: Settings, local: dict[str, Any]) -> dict[str, Any]:
    defaults = Settings()
    return {
        name: value
        for name, value in local.items()
        if getattr(settings, name) == getattr(defaults, name)
    }


def _added(given: tuple[str, ...], more: set[str]) -> tuple[str, ...]:
    return (*given, *sorted(more - set(given)))
