"""Cluster, identity and connection: kubeconfig files, plugins, proxies."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import socket
import stat
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube.config.models import UserExec

from tests.support.kube.reflector_events import (
    CONFIGMAPS,
    QUICK,
    collect_until,
    collect_until_changed,
    collect_until_synced,
    config_map,
)
from tests.support.kube.watch_proxy import StreamFault, WatchProxy
from tests.support.processes.polling import eventually
from windlass.base import redaction
from windlass.base.errors import Retryable, Stalled
from windlass.kube import configuration
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Unavailable
from windlass.kube.exec_auth import ExecPlugin
from windlass.kube.reflector import Interrupted, Scope, reflect


def _kubeconfig(
    path: Path,
    context: str = "desk",
    server: str = "http://127.0.0.1:1",
    user: dict[str, Any] | None = None,
    *,
    current: bool = True,
) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [
            {"name": context, "context": {"cluster": context, "user": "u", "namespace": "shop"}}
        ],
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(document | ({"current-context": context} if current else {})))
    return path


def _plugin(path: Path, script: str) -> UserExec:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return UserExec(apiVersion="client.authentication.k8s.io/v1", command=str(path))


def _runs(pid: str) -> bool:
    """Whether a process is running and not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


async def test_named_file(tmp_path: Path) -> None:
    """A named file has server, namespace and context."""
    async with Connection.open(kubeconfig=_kubeconfig(tmp_path / "k")) as connection:
        assert connection.server == "http://127.0.0.1:1"
        assert connection.namespace == "shop"
        assert connection.context_name == "desk"


def test_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG may name several files, some of which do not exist."""
    first = _kubeconfig(tmp_path / "a", "first", "https://first:6443")
    second = _kubeconfig(tmp_path / "b", "second", "https://second:6443", current=False)
    monkeypatch.setenv(
        "KUBECONFIG", os.pathsep.join([str(tmp_path / "none"), str(first), str(second)])
    )
    assert configuration.load(None, None).config.cluster.server == "https://first:6443"
    assert configuration.load(None, "second").config.cluster.server == "https://second:6443"
    with pytest.raises(Stalled, match="context 'third' not found"):
        configuration.load(None, "third")


def test_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names every way to give one."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Stalled, match="set KUBECONFIG"):
        configuration.load(None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "clusters: 7\ncontexts: []",
        "a: b: sekrit-token-value",
        "{clusters: [{name: a}], contexts: [], users: []}",
        "{clusters: [], contexts: [{name: a, context: {cluster: gone}}], current-context: a}",
        "{clusters: [], contexts: []}",
        "\x00",
    ],
)
def test_a_broken_file(tmp_path: Path, text: str) -> None:
    """It is named, its content is not."""
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(Stalled) as caught:
        configuration.load(path, None)
    assert str(path) in caught.value.message
    assert "sekrit" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is named."""
    with pytest.raises(Stalled, match="not found"):
        configuration.load(tmp_path / "absent", None)


def test_broken_certificates(tmp_path: Path) -> None:
    """Invalid certificates are an error at once."""
    path = _kubeconfig(
        tmp_path / "k",
        user={"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="},
    )
    with pytest.raises(Stalled, match="certificates of context 'desk'"):
        Connection.open(kubeconfig=path)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://api.example.org:6443", "http://proxy:3128"),
        ("https://10.1.2.3", "http://proxy:3128"),
        ("https://inside.corp:6443", None),
        ("https://127.0.0.1:6443", None),
        ("https://[::1]:6443", None),
        ("https://localhost:6443", None),
    ],
)
def test_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, server: str, expected: str | None
) -> None:
    """Proxy variables are honored, but never for loopback."""
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", ".corp")
    for name in ("https_proxy", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert configuration.proxy_for(server) == expected


async def test_a_missing_token_file(tmp_path: Path) -> None:
    """A token that cannot be read is a transient fault, as it may be in rotation."""
    path = _kubeconfig(tmp_path / "k", user={"tokenFile": "absent"})
    async with Connection.open(kubeconfig=path) as connection:
        with pytest.raises(Unavailable) as caught:
            await Api(connection).text("/readyz")
    assert caught.value.reason == "CredentialUnreadable"


async def test_token_of_two_lines(tmp_path: Path) -> None:
    """A line break in a token cannot become a header, and the token is not in the message."""
    (tmp_path / "token").write_text("secret-part\nX-Evil: yes")
    # The kernel alone accepts: a loop that ends before it has done so would leave a socket.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        path = _kubeconfig(
            tmp_path / "k", server=f"http://127.0.0.1:{port}", user={"tokenFile": "token"}
        )
        async with Connection.open(kubeconfig=path) as connection:
            items = reflect(connection, Scope(CONFIGMAPS), QUICK)
            async with aclosing(items):
                [item] = await collect_until(items, lambda item: True)
    assert isinstance(item, Interrupted)
    assert "line break" in item.message
    assert "secret-part" not in item.message


async def test_plugin_runs_once_for_all(tmp_path: Path) -> None:
    """Concurrent requests that need a token share one run of the plugin."""
    counter = tmp_path / "runs"
    plugin = _plugin(
        tmp_path / "plugin",
        f'echo run >> {counter}; case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) '
        """echo '{"status":{"token":"plugin-token-1"}}';; esac""",
    )
    auth = ExecPlugin(plugin)

    async def first_header() -> str:
        flow = auth.async_auth_flow(httpx2.Request("GET", "http://x/"))
        request = await anext(flow)
        await flow.aclose()
        return request.headers["Authorization"]

    headers = await asyncio.gather(*(first_header() for _ in range(20)))
    assert set(headers) == {"Bearer plugin-token-1"}
    assert counter.read_text() == "run\n"
    assert "plugin-token-1" not in redaction.process.clean("got plugin-token-1")


async def test_refused_token_is_renewed(tmp_path: Path) -> None:
    """After a 401 the plugin is run again."""
    counter = tmp_path / "runs"
    plugin = _plugin(
        tmp_path / "plugin",
        f"echo x >> {counter}; runs=$(wc -l < {counter} | tr -d ' '); "
        """printf '{"status":{"token":"token-%s"}}' "$runs" """,
    )
    flow = ExecPlugin(plugin).async_auth_flow(httpx2.Request("GET", "http://x/"))
    request = await anext(flow)
    assert request.headers["Authorization"] == "Bearer token-1"
    request = await flow.asend(httpx2.Response(401))
    assert request.headers["Authorization"] == "Bearer token-2"
    with pytest.raises(StopAsyncIteration):
        await flow.asend(httpx2.Response(401))


@pytest.mark.parametrize("script", ["exit 3", "echo no json", "echo '{}'"])
async def test_plugin_that_fails(tmp_path: Path, script: str) -> None:
    """The error names the plugin."""
    auth = ExecPlugin(_plugin(tmp_path / "plugin", script))
    flow = auth.async_auth_flow(httpx2.Request("GET", "http://x/"))
    with pytest.raises(Retryable, match="CredentialPluginFailed") as caught:
        await anext(flow)
    assert str(tmp_path / "plugin") in caught.value.message


async def test_plugin_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin has a deadline, so that a request fails instead of waiting forever."""
    monkeypatch.setattr("windlass.kube.exec_auth.PLUGIN_SECONDS", 0.1)
    flow = ExecPlugin(_plugin(tmp_path / "plugin", "sleep 600")).async_auth_flow(
        httpx2.Request("GET", "http://x/")
    )
    with pytest.raises(Retryable, match="timed out after"):
        await anext(flow)


async def test_a_plugin_is_ended_with_its_last_waiter(tmp_path: Path) -> None:
    """It reads no terminal, and its whole process group is ended."""
    noted = tmp_path / "pid"
    plugin = _plugin(tmp_path / "plugin", f"cat; sleep 600 & echo $! > {noted}; wait")
    flow = ExecPlugin(plugin).async_auth_flow(httpx2.Request("GET", "http://x/"))

    async def pid() -> str:
        return await asyncio.to_thread(noted.read_text) if noted.exists() else ""

    async def gone() -> bool:
        return not await asyncio.to_thread(_runs, started)

    pending = asyncio.ensure_future(anext(flow))
    started = (await eventually(pid, "the plugin runs")).strip()
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    await eventually(gone, "the plugin's child has ended")


def test_plugin_of_an_unknown_version(tmp_path: Path) -> None:
    """An unsupported plugin version is refused at the start."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v9", "command": "x"}}
    with pytest.raises(Stalled, match=r"use client\.authentication"):
        Connection.open(kubeconfig=_kubeconfig(tmp_path / "k", user=user))


@pytest.mark.cluster
async def test_a_reflector_through_a_forward_proxy(
    proxy: WatchProxy,
    api: Api,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a proxy streams work alike, idle detection included."""
    monkeypatch.setenv("http_proxy", proxy.server)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    path = _kubeconfig(tmp_path / "k", server="http://kubernetes.test")
    proxy.fault(
        StreamFault(after_lines=0, then="freeze", after_seconds=0),
        when=lambda seen: seen.is_watchlist,
        times=None,
    )
    settings = dataclasses.replace(QUICK, idle_seconds=0.5)
    async with Connection.open(kubeconfig=path) as connection:
        scope = Scope(CONFIGMAPS, namespace)
        items = reflect(connection, scope, settings, rng=random.Random(1))
        async with aclosing(items):
            await collect_until(
                items, lambda item: isinstance(item, Interrupted) and item.reason == "idle"
            )
            proxy.heal()
            await collect_until_synced(items)
            await api.create(CONFIGMAPS, config_map("a", namespace), field_manager="windlass-test")
            await collect_until_changed(items, "a")
