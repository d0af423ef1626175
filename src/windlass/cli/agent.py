"""`windlass agent`: the sidecar beside one gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from windlass.app import settings
from windlass.app import settings_forms as forms
from windlass.app.settings_forms import Form

T = TypeVar("T")

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
    git_refused_cidrs: Annotated[
        str,
        typer.Option(
            envvar="GIT_REFUSED_CIDRS",
            help="Comma-separated blocks of addresses that git never connects to.",
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

    from windlass.telemetry import log_setup

    log_setup.load_structlog()
    from windlass.app import agent as role
    from windlass.gateways.agent.inputs import AgentIdentity, AgentPaths
    from windlass.git.settings import GitSettings
    from windlass.telemetry import logs

    logs.configure(
        _read(settings.LOG_FORMATS, log_format, "--log-format"),
        _read(settings.LOG_LEVELS, log_level, "--log-level"),
    )
    hosts = _read(forms.Several(forms.HOST), git_insecure_hosts, "--git-insecure-hosts")
    cidrs = _read(forms.Several(forms.CIDR), git_refused_cidrs, "--git-refused-cidrs")
    agent_settings = role.AgentSettings(
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
        git=GitSettings(
            run_directory=run_path,
            insecure_hosts=frozenset(hosts),
            refused_cidrs=cidrs,
            api_server=_api_server(kubeconfig),
        ),
        kubeconfig=kubeconfig,
        health=_read(forms.Listen(), health_probe_bind_address, "--health-probe-bind-address"),
        metrics=_read(forms.Listen(), metrics_bind_address, "--metrics-bind-address"),
        plan=("127.0.0.1", plan_port),
    )
    asyncio.run(role.run(agent_settings))


def _api_server(kubeconfig: Path | None) -> tuple[str, int] | None:
    """Host and port of the API server; None without one, because an agent also works offline."""
    from windlass.base.errors import WindlassError
    from windlass.git.settings import server_endpoint
    from windlass.kube import configuration

    try:
        access = configuration.load(kubeconfig, None)
    except WindlassError:
        return None
    return server_endpoint(access.config.cluster.server)


def _read(form: Form[T], text: str, flag: str) -> T:
    try:
        return form.read(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not {form.expected}", param_hint=flag) from error
