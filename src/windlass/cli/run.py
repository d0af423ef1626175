"""`windlass controller`: the long-running operator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.app.settings import Settings
from windlass.app.settings_flags import accepts_settings

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Path of the kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the pod's account."
    ),
]


@accepts_settings
def controller(kubeconfig: Kubeconfig = None, *, settings: Settings) -> None:
    """Run all controllers and the admission webhook, with leader election."""
    import asyncio

    from windlass.telemetry import log_setup

    log_setup.load_structlog()
    from windlass.app import controller as role
    from windlass.telemetry import logs

    logs.configure(format=settings.log_format, level=settings.log_level)
    asyncio.run(role.run(settings, kubeconfig))
