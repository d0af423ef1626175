"""`windlass agent`: the sidecar beside one gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_GIB = 1024**3
_MOUNT_ROOT = Path("/etc/windlass")


def agent(
    pod_name: Annotated[str, typer.Option(envvar="POD_NAME", help="Name of this pod.")],
    pod_uid: Annotated[str, typer.Option(envvar="POD_UID", help="UID of this pod.")],
    pod_namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", help="Namespace of this pod.")
    ],
    cr_name: Annotated[str, typer.Option(envvar="CR_NAME", help="Name of the IgnitionSync.")],
    data_path: Annotated[
        Path, typer.Option(envvar="DATA_PATH", help="Data directory of the gateway.")
    ],
    node_name: Annotated[str, typer.Option(envvar="NODE_NAME", help="Node of this pod.")] = "",
    store_path: Annotated[
        Path, typer.Option(envvar="STORE_PATH", help="Directory for Git objects.")
    ] = Path("/var/lib/windlass/store"),
    store_bytes: Annotated[
        int,
        typer.Option(
            envvar="STORE_BYTES", min=1, help="Size of the volume for Git objects, in bytes."
        ),
    ] = 4 * _GIB,
    run_path: Annotated[
        Path | None,
        typer.Option(
            envvar="RUN_PATH", help="Directory for keys during a git call; should be in memory."
        ),
    ] = None,
    pod_info: Annotated[
        Path,
        typer.Option(
            envvar="POD_INFO_PATH",
            help="Directory with the files `annotations` and `labels` of the pod.",
        ),
    ] = _MOUNT_ROOT / "podinfo",
    api_key_file: Annotated[
        Path,
        typer.Option(
            envvar="API_KEY_FILE", help="File with the API token of the gateway, name:secret."
        ),
    ] = _MOUNT_ROOT / "api-key/apiKey",
    git_auth: Annotated[
        Path,
        typer.Option(
            envvar="GIT_AUTH_PATH", help="Directory with the keys of the Git Secret as files."
        ),
    ] = _MOUNT_ROOT / "git-auth",
    git_ca: Annotated[
        Path, typer.Option(envvar="GIT_CA_PATH", help="Directory with ca.crt for the Git server.")
    ] = _MOUNT_ROOT / "git-ca",
    gateway_ca: Annotated[
        Path, typer.Option(envvar="GATEWAY_CA_FILE", help="CA certificate of the gateway.")
    ] = _MOUNT_ROOT / "gateway-ca/ca.crt",
    git_insecure_hosts: Annotated[
        str,
        typer.Option(
            envvar="GIT_INSECURE_HOSTS", help="Comma-separated hosts for which http is allowed."
        ),
    ] = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Path of the kubeconfig; default: the pod's service account."),
    ] = None,
    health_probe_bind_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of /startupz and /healthz.")
    ] = ":8082",
    metrics_bind_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of /metrics.")
    ] = ":8083",
    plan_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Loopback port that serves the newest plan.")
    ] = 8084,
    log_format: Annotated[str, typer.Option(help="Log format: auto, text or json.")] = "auto",
    log_level: Annotated[
        str, typer.Option(help="Log level: debug, info, warning or error.")
    ] = "info",
) -> None:
    """Keep the files of the gateway in this pod in sync with its IgnitionSync."""
    import asyncio
    from typing import cast

    from windlass.telemetry import log_setup

    log_setup.load_structlog()
    from windlass.app import agent as role
    from windlass.gateways.agent.inputs import AgentIdentity, AgentPaths
    from windlass.git.settings import GitSettings
    from windlass.telemetry import logs

    if log_format not in ("auto", "text", "json"):
        raise typer.BadParameter(
            f'unsupported value "{log_format}"; use auto, text or json', param_hint="--log-format"
        )
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(
            f'unsupported value "{log_level}"; use debug, info, warning or error',
            param_hint="--log-level",
        )
    logs.configure(cast("logs.LogFormat", log_format), cast("logs.LogLevel", log_level))
    hosts = frozenset(filter(None, (host.strip() for host in git_insecure_hosts.split(","))))
    settings = role.AgentSettings(
        identity=AgentIdentity(pod_name, pod_uid, pod_namespace, cr_name, node_name),
        paths=AgentPaths(
            data=data_path,
            store=store_path,
            pod_info=pod_info,
            api_key=api_key_file,
            git_auth=git_auth,
            git_ca=git_ca,
            gateway_ca=gateway_ca,
        ),
        store_bytes=store_bytes,
        git=GitSettings(run_directory=run_path, insecure_hosts=hosts),
        kubeconfig=kubeconfig,
        health=_parse_address(health_probe_bind_address, "--health-probe-bind-address"),
        metrics=_parse_address(metrics_bind_address, "--metrics-bind-address"),
        plan=("127.0.0.1", plan_port),
    )
    asyncio.run(role.run(settings))


def _parse_address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(
            f'"{text}" is not an address; use HOST:PORT or :PORT', param_hint=option
        )
    return host.strip("[]"), int(port)
