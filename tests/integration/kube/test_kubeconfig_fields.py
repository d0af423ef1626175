"""Fields of a kubeconfig that change identity or connection, compared with the real kubectl."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml

from windlass.base.errors import Stalled
from windlass.kube import configuration
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Forbidden, Unavailable
from windlass.kube.reflector import Interrupted, Scope, reflect
from windlass.objects.names import GVR

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

CONFIGMAPS = GVR("", "v1", "configmaps")
SELF_REVIEWS = GVR("authentication.k8s.io", "v1", "selfsubjectreviews")

Document = dict[str, Any]


def _changed(
    source_cluster: LocalCluster,
    path: Path,
    user: Mapping[str, Any] = {},
    cluster: Mapping[str, Any] = {},
) -> Path:
    """The administrator's kubeconfig with fields of its user and its cluster added."""
    document = yaml.safe_load(source_cluster.admin_kubeconfig.read_text())
    document["users"][0]["user"] |= user
    document["clusters"][0]["cluster"] |= cluster
    path.write_text(yaml.safe_dump(document))
    return path


async def _server_identity(kubeconfig: Path) -> Document:
    """The user that the server authenticates for `kubeconfig`."""
    body = {"apiVersion": SELF_REVIEWS.api_version, "kind": "SelfSubjectReview"}
    async with Connection.open(kubeconfig=kubeconfig) as connection:
        reviewed = await Api(connection).create(SELF_REVIEWS, body, field_manager="windlass-test")
    who: Document = reviewed["status"]["userInfo"]
    return who


def _kubectl_identity(source_cluster: LocalCluster, kubeconfig: Path) -> Document:
    command = [source_cluster.kubectl, f"--kubeconfig={kubeconfig}", "auth", "whoami", "-o", "json"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60)
    who: Document = json.loads(done.stdout)["status"]["userInfo"]
    return who


async def test_as_is_honored(cluster: LocalCluster, tmp_path: Path) -> None:
    """With `as: nobody` windlass may read no more than kubectl, in requests and in watches."""
    path = _changed(cluster, tmp_path / "k", user={"as": "nobody"})
    async with Connection.open(kubeconfig=path) as connection:
        with pytest.raises(Forbidden, match='"nobody" cannot list'):
            await Api(connection).list(CONFIGMAPS, "kube-system")
        items = reflect(connection, Scope(CONFIGMAPS, "kube-system"))
        first = await anext(items)
        await items.aclose()
    assert isinstance(first, Interrupted)
    assert "forbidden" in first.message


async def test_every_part_of_an_identity(cluster: LocalCluster, tmp_path: Path) -> None:
    """Groups, uid and extra values reach the server as kubectl sends them."""
    user = {
        "as": "jörg",
        "as-uid": "4711",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"acme.com/Project %1": ["alpha", "beta"], "scopes": ["view"]},
    }
    path = _changed(cluster, tmp_path / "k", user=user)
    ours, theirs = (
        await _server_identity(path),
        await asyncio.to_thread(_kubectl_identity, cluster, path),
    )
    assert ours == theirs
    assert (ours["username"], ours["uid"]) == ("jörg", "4711")
    assert {"dev", "ops"} <= set(ours["groups"])


async def test_no_second_impersonation(cluster: LocalCluster, tmp_path: Path) -> None:
    """The groups of a kubeconfig's own impersonation are not used with another one."""
    path = _changed(cluster, tmp_path / "k", user={"as": "nobody", "as-groups": ["ops"]})
    async with Connection.open(kubeconfig=path) as connection:
        with pytest.raises(Stalled, match="sets `as`"):
            Api(connection, acting_as="system:serviceaccount:a:b")


@pytest.mark.parametrize(
    ("user", "way", "expected"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider.*use exec"),
        ({"as-groups": ["ops"]}, {}, "without as; set as"),
        ({}, {"proxy-url": "socks5://127.0.0.1:1"}, "proxy-url.*use http"),
        ({}, {"proxy-url": 7}, "malformed"),
    ],
)
def test_refused_by_name(
    changed_kubeconfig: Callable[..., Path], user: Document, way: Document, expected: str
) -> None:
    """An unsupported field is refused with its name and the remedy."""
    with pytest.raises(Stalled, match=expected):
        Connection.open(kubeconfig=changed_kubeconfig(user=user, cluster=way))


@pytest.fixture
def changed_kubeconfig(cluster: LocalCluster, tmp_path: Path) -> Callable[..., Path]:
    """Creates changed copies of the administrator's kubeconfig."""
    return lambda **changes: _changed(cluster, tmp_path / "changed", **changes)


async def test_server_name_of_the_certificate(changed_kubeconfig: Callable[..., Path]) -> None:
    """`tls-server-name` is what the certificate must have, in requests and in watches."""
    right = changed_kubeconfig(cluster={"tls-server-name": "kubernetes.default.svc"})
    async with Connection.open(kubeconfig=right) as connection:
        assert await Api(connection).text("/livez/ping") == "ok"
    wrong = changed_kubeconfig(cluster={"tls-server-name": "bank.example"})
    async with Connection.open(kubeconfig=wrong) as connection:
        with pytest.raises(Unavailable, match=r"bank\.example"):
            await Api(connection).text("/livez/ping")
        items = reflect(connection, Scope(CONFIGMAPS, "kube-system"))
        first = await anext(items)
        await items.aclose()
    assert isinstance(first, Interrupted)


@asynccontextmanager
async def _tunnel(target: tuple[str, int]) -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that forwards every CONNECT to `target`; its address, the requests it saw."""
    seen: list[str] = []
    served: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head.split(b"\r\n", 1)[0].decode())
        there, back = await asyncio.open_connection(*target)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)
        await asyncio.gather(back.wait_closed(), writer.wait_closed(), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", seen
        await asyncio.gather(*served)


async def test_proxy_of_the_kubeconfig(
    cluster: LocalCluster, changed_kubeconfig: Callable[..., Path]
) -> None:
    """Requests and the verified server name go through `proxy-url`, also to loopback."""
    parts = urlsplit(cluster.server)
    assert parts.hostname
    assert parts.port
    async with _tunnel((parts.hostname, parts.port)) as (proxy, seen):
        way = {
            "proxy-url": proxy,
            "server": "https://api.far.example:6443",
            "tls-server-name": "kubernetes.default.svc",
        }
        async with Connection.open(kubeconfig=changed_kubeconfig(cluster=way)) as connection:
            assert await Api(connection).text("/livez/ping") == "ok"
    assert seen == ["CONNECT api.far.example:6443 HTTP/1.1"]


def _part(name: str, *, origin: str, current: str = "") -> Document:
    """A kubeconfig whose entries name the file they come from."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "contexts": [
            {"name": name, "context": {"cluster": "shared", "user": "one", "namespace": origin}},
            {"name": "both", "context": {"cluster": f"c-{origin}", "user": "shared"}},
        ],
        "clusters": [
            {"name": "shared", "cluster": {"server": f"https://shared-{origin}:6443"}},
            {"name": f"c-{origin}", "cluster": {"server": f"https://own-{origin}:6443"}},
        ],
        "users": [
            {"name": "shared", "user": {"token": f"token-{origin}"}},
            *([{"name": "one", "user": {"token": "the-one"}}] if origin == "b" else []),
        ],
    }


def _view(source_cluster: LocalCluster, files: str, context: str) -> tuple[str, str, str]:
    command = [
        *(source_cluster.kubectl, "config", "view", "--minify", "--raw", "-o", "json"),
        *([f"--context={context}"] if context else []),
    ]
    environment = {"KUBECONFIG": files, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment)
    seen = json.loads(done.stdout)
    return (
        seen["clusters"][0]["cluster"]["server"],
        seen["users"][0]["user"]["token"],
        seen["contexts"][0]["context"].get("namespace") or "default",
    )


def test_files_merge_as_kubectl_merges_them(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every order of three files, every context resolves as in kubectl."""
    parts = {
        "a": _part("left", origin="a"),
        "b": _part("left", origin="b", current="left"),
        "c": _part("right", origin="c", current="both"),
    }
    for name, document in parts.items():
        (tmp_path / name).write_text(yaml.safe_dump(document))
    (tmp_path / "empty").write_text("")
    for order in itertools.permutations(["a", "b", "c", "empty"], 4):
        files = ":".join(str(tmp_path / name) for name in (*order, "absent"))
        monkeypatch.setenv("KUBECONFIG", files)
        for context in ("", "left", "both") if order[-1] == "empty" else ("",):
            access = configuration.load(None, context or None)
            assert access.config.user is not None
            ours = (
                access.config.cluster.server,
                access.config.user.token,
                access.config.namespace,
            )
            assert ours == _view(cluster, files, context), (order, context)


async def test_a_plugin_gets_the_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    """A plugin beside its kubeconfig that requests it gets the cluster information."""
    plugin = tmp_path / "plugin"
    plugin.write_text('#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/told"\nexit 1\n')
    plugin.chmod(0o755)
    exec_plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    path = _changed(cluster, tmp_path / "k", cluster={"extensions": [extension]})
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] = {"exec": exec_plugin}
    path.write_text(yaml.safe_dump(document))

    async with Connection.open(kubeconfig=path) as connection:
        with pytest.raises(Exception, match="CredentialPluginFailed"):
            await Api(connection).text("/readyz")
    ours = json.loads((tmp_path / "told").read_text())["spec"]["cluster"]
    command = [cluster.kubectl, f"--kubeconfig={path}", "get", "--raw=/readyz"]
    await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60)
    theirs = json.loads((tmp_path / "told").read_text())["spec"]["cluster"]
    assert ours == theirs
