"""`windlass controller` and `windlass run`: the long-running roles."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.app.settings import Settings
from windlass.app.settings_flags import accepts_settings

if TYPE_CHECKING:
    from windlass.dev.desk import Desk
    from windlass.dev.install import Installed

Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Which cluster; KUBECONFIG, ~/.kube/config or the pod's own otherwise."),
]


@accepts_settings
def controller(settings: Settings, kubeconfig: Kubeconfig = None) -> None:
    """Run all controllers and the admission witness, leader-elected."""
    import asyncio

    from windlass.telemetry import lean

    lean.load()
    from windlass.app import controller as role
    from windlass.telemetry import logs

    logs.configure(format=settings.log_format, level=settings.log_level)
    asyncio.run(role.run(settings, kubeconfig))


@accepts_settings
def run(
    settings: Settings,
    kubeconfig: Kubeconfig = None,
    dev: Annotated[
        bool, typer.Option("--dev", help="Install into a cluster of `windlass dev up`, then run.")
    ] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="Which desk cluster.")] = "dev",
) -> None:
    """Run windlass at the desk: installs CRDs and roles, then acts as a user with those roles."""
    import asyncio

    from windlass.telemetry import lean

    lean.load()
    from windlass.api.install import Install
    from windlass.app import controller as role
    from windlass.base.errors import WindlassError
    from windlass.dev import install as installing
    from windlass.telemetry import logs

    if not dev:
        raise WindlassError(
            "NotADesk", "run needs --dev; in a cluster, `windlass controller` is the role to start"
        )
    desk = _desk(kubeconfig, name)
    logs.configure(format=settings.log_format, level=settings.log_level)
    place = Install(settings.release, settings.namespace)
    installed = asyncio.run(installing.install(desk, place))
    typer.echo(f"installed; acting as {installing.OPERATOR}", err=True)
    asyncio.run(role.run(_at_desk(settings, installed), installed.kubeconfig, at_desk=True))


def _desk(kubeconfig: Path | None, name: str) -> Desk:
    """The desk meant; a kubeconfig that leads elsewhere is refused, not overlooked."""
    from windlass.base.errors import WindlassError
    from windlass.dev import desk
    from windlass.dev.kubeconfig import desk_mark

    given = kubeconfig or (Path(os.environ["KUBECONFIG"]) if os.environ.get("KUBECONFIG") else None)
    if given is None:
        return desk.named(name)
    mark = desk_mark(given)
    if mark is None:
        raise WindlassError(
            "NotADesk",
            f"{given} does not lead to a cluster that `windlass dev up` made; --dev installs "
            "cluster-wide things and refuses any other. Unset KUBECONFIG, or run "
            '`eval "$(windlass dev env)"`',
        )
    return desk.named(mark.name)


def _at_desk(settings: Settings, installed: Installed) -> Settings:
    """For this machine and the cluster only, on ports that disturb nobody, unless told."""
    from windlass.app.settings_forms import Address
    from windlass.dev import binaries, tools

    defaults = Settings()
    at_desk = {
        "metrics_bind_address": Address("127.0.0.1", 0),
        "health_probe_bind_address": Address("127.0.0.1", 0),
        "work_dir": installed.work_directory,
        "environments_helm": str(binaries.at_hand(tools.HELM) or settings.environments_helm),
    }
    changes: dict[str, Any] = {
        name: value
        for name, value in at_desk.items()
        if getattr(settings, name) == getattr(defaults, name)
    }
    webhook = Address(installed.webhook_host, installed.webhook_port)
    return replace(settings, webhook_bind_address=webhook, **changes)
