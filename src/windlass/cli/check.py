"""`windlass check`: measures what windlass relies on, with the rights of the current user.

Exit codes: 0 means that it holds, 1 that it does not, that the result is unknown, or an error,
2 that the command line is wrong. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from windlass.environments.probe.network_probe import ProbeResult

_LEAST_SECONDS, _MOST_SECONDS = 10, 600
"""Calls that a network policy drops take seconds to time out, and several are needed."""


def check(
    network_probe: Annotated[
        bool,
        typer.Option(
            "--network-probe",
            help="Measure whether the network of this cluster enforces network policies.",
        ),
    ] = False,
    image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE",
            help="Image for the pods of the probe; it must contain sh, nc and timeout.",
        ),
    ] = "",
    kubeconfig: Annotated[Path | None, typer.Option(help="Path of the kubeconfig.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long to wait for pods and for each change, from 10s to 10m.",
        ),
    ] = "60s",
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output format: text or json.")
    ] = "text",
) -> None:
    """Check what windlass needs from a cluster, in temporary namespaces."""
    if not network_probe:
        raise typer.BadParameter(
            "specify what to check: --network-probe measures whether network policies are enforced"
        )
    if not image:
        raise typer.BadParameter(
            "specify an image that this cluster can pull and that contains sh, nc and timeout, "
            "for example busybox",
            param_hint="--image",
        )
    if output not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--output")
    measured = _run_interruptible(_probe(image, _parse_timeout(timeout), kubeconfig, context))
    from windlass.environments.probe import enforcement

    _print(_as_json(measured) if output == "json" else _as_text(measured))
    sys.exit(0 if enforcement.overall_verdict(measured.results) == "Enforced" else 1)


def _parse_timeout(timeout: str) -> float:
    from windlass.base import clock

    try:
        seconds = clock.parse_duration(timeout)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from error
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise typer.BadParameter("must be between 10s and 10m", param_hint="--timeout")
    return seconds


def _run_interruptible(work: Coroutine[None, None, ProbeResult]) -> ProbeResult:
    """Run `work`; an interrupt cancels it and waits until it has cleaned up."""
    import asyncio
    import signal

    async def interruptible() -> ProbeResult:
        task = asyncio.ensure_future(work)
        # asyncio leaves SIGINT alone where it is inherited as ignored, which is how a script
        # starts what runs in its background: handled here, it cancels there too.
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await task

    try:
        return asyncio.run(interruptible())
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("interrupted; no result", err=True)
        sys.exit(1)


async def _probe(
    image: str, seconds: float, kubeconfig: Path | None, context: str | None
) -> ProbeResult:
    from windlass.base.clock import SystemClock
    from windlass.environments.probe.network_probe import NetworkProbe
    from windlass.kube.api import Api
    from windlass.kube.connection import Connection

    async with Connection.open(kubeconfig=kubeconfig, context=context) as connection:
        probe = NetworkProbe(
            Api(connection),
            SystemClock(),
            image=image,
            seconds=seconds,
            report=lambda text: _print(text, err=True),
        )
        return await probe.run()


def _print(text: str, *, err: bool = False) -> None:
    """Print texts of the API server and of pods without control characters."""
    from windlass.base import redaction

    typer.echo(redaction.visible(text), err=err)


def _as_text(measured: ProbeResult) -> str:
    from windlass.environments.probe import enforcement

    lines = [f"{row.direction}: {row.verdict}, {row.message}" for row in measured.results]
    lines.append(_nodes_text(measured))
    lines.append(enforcement.advice(enforcement.overall_verdict(measured.results)))
    return "\n".join(lines)


def _nodes_text(measured: ProbeResult) -> str:
    nodes = measured.nodes
    if len(set(nodes.values())) == 1:
        return f"all pods ran on node {nodes['server']}; traffic between nodes was not measured"
    return "measured with " + ", ".join(f"the {name} on {node}" for name, node in nodes.items())


def _as_json(measured: ProbeResult) -> str:
    from windlass.environments.probe import enforcement

    verdict = enforcement.overall_verdict(measured.results)
    directions = {
        row.direction: {
            "verdict": row.verdict,
            "seconds": None if row.seconds is None else round(row.seconds, 1),
            "message": row.message,
        }
        for row in measured.results
    }
    return json.dumps(
        {
            "verdict": verdict,
            **directions,
            "nodes": dict(measured.nodes),
            "advice": enforcement.advice(verdict),
            "left": list(measured.leftover_namespaces),
        },
        indent=2,
    )
