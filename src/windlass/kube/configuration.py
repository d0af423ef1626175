"""Loads the kubeconfig: server, user, proxy and impersonation.

The given file wins; else the files of KUBECONFIG, merged as kubectl merges them; else
~/.kube/config; else the service account of the pod. Merged: the first file that has a
current-context, or an entry of some name, wins, entries are never mixed, and a context may name a
cluster or a user of another file. Paths are relative to the file that contains them.

Every field that changes the user or the server is honored or refused by name: `as` and its
companions become impersonation headers, `proxy-url` wins over proxies of the environment,
`tls-server-name` is the name that the certificate of the server must carry. A proxy of the
environment is used as elsewhere, except for this machine itself.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, SingleConfig
from lightkube.config.models import Cluster, Context, User
from lightkube.core.exceptions import ConfigError

from windlass.base import redaction
from windlass.base.errors import Stalled

Header = tuple[bytes, bytes]

_Section = Literal["cluster", "context", "user"]
_T = TypeVar("_T")

_SECTIONS: tuple[_Section, ...] = ("cluster", "context", "user")
_PROXY_SCHEMES = frozenset({"http", "https"})
# What RFC 9110 lets into the name of a header, but for the sign that begins an escape.
_HEADER_NAME = "!#$&'*+-.^_`|~"
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_PLUGIN_CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to one server as one user."""

    config: SingleConfig
    """Server, certificates and credentials, as lightkube takes them."""
    proxy: str | None = None
    """The proxy for requests; None: they go directly to the server."""
    tls_server_name: str = ""
    """The name that the server's certificate must carry; empty: the host of its address."""
    impersonation: tuple[Header, ...] = ()
    """Impersonation headers; empty without impersonation."""
    plugin_cluster: Mapping[str, Any] | None = None
    """`spec.cluster` for a credential plugin; None where it does not request it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named entry of a kubeconfig, and the file that contains it."""

    body: Mapping[str, Any]
    origin: Path


@dataclass(slots=True)
class _Merged:
    """All kubeconfig files merged."""

    entries: dict[tuple[_Section, str], _Entry] = field(default_factory=dict)
    current_context: str = ""


class _Impersonation(msgspec.Struct):
    user: str = msgspec.field(name="as", default="")
    uid: str = msgspec.field(name="as-uid", default="")
    groups: list[str] = msgspec.field(name="as-groups", default_factory=list)
    extra: dict[str, list[str]] = msgspec.field(name="as-user-extra", default_factory=dict)


class _ClusterNetwork(msgspec.Struct):
    tls_server_name: str = msgspec.field(name="tls-server-name", default="")
    proxy: str = msgspec.field(name="proxy-url", default="")


def load(kubeconfig: Path | None, context: str | None) -> Access:
    """The access of `context` or the current one; Stalled names what is missing and where."""
    files = list(_files(kubeconfig))
    if not files:
        return _from_pod()
    merged = _Merged()
    for path in files:
        _merge(merged, path)
    name = context or merged.current_context
    if not name:
        raise _invalid(f"{files[0]} has no current-context; set it, or specify a context")
    if ("context", name) not in merged.entries:
        raise _invalid(f"context {name!r} not found in {', '.join(map(str, files))}")
    return _selected(merged, name)


def proxy_for(server: str) -> str | None:
    """The proxy of the environment for `server`; None where none is to be used."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if _is_this_machine(host):
        return None
    proxies = getproxies()
    if proxy_bypass(host):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


# Reading and merging.


def _files(kubeconfig: Path | None) -> Iterator[Path]:
    if kubeconfig is not None:
        yield kubeconfig
        return
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        # A list may name files that do not exist yet; a single name must be right.
        yield from [path for path in named if path.is_file()] or named[:1]
        return
    home = Path(DEFAULT_KUBECONFIG).expanduser()
    if home.is_file():
        yield home


def _merge(merged: _Merged, path: Path) -> None:
    document = _read(path)
    merged.current_context = merged.current_context or str(document.get("current-context") or "")
    for section in _SECTIONS:
        own: dict[tuple[_Section, str], _Entry] = {}
        for name, body in _named(document.get(f"{section}s"), section, path):
            if (section, name) in own:
                raise _invalid(f"{path} defines {section} {name!r} twice")
            own[section, name] = _Entry(body, path)
        merged.entries = own | merged.entries


def _read(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise _invalid(f"{path} not found")
    try:
        document = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        # The parser's own text may quote the line, and the line may be a credential.
        raise _invalid(f"{path} is not a kubeconfig") from error
    if not isinstance(document, dict):
        raise _invalid(f"{path} is not a kubeconfig")
    return document


def _named(listed: Any, section: _Section, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every entry of a section with its name; a section or a body may be missing."""
    try:
        for item in listed or ():
            yield str(item["name"]), dict(item.get(section) or {})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _invalid(f"{path} is not a kubeconfig: {section}s is malformed") from error


# Choosing.


def _selected(merged: _Merged, name: str) -> Access:
    entry = merged.entries["context", name]
    context = _converted(entry, Context, "context", name)
    cluster = _referenced(merged, "cluster", context.cluster, name)
    user = _referenced(merged, "user", context.user, name) if context.user else None
    config = SingleConfig(
        context_name=name,
        context=context,
        cluster=_cluster(cluster, context.cluster),
        user=_user(user, context.user or "") if user else User(),
        fname=entry.origin,
    )
    network = _converted(cluster, _ClusterNetwork, "cluster", context.cluster)
    return Access(
        config=config,
        proxy=_proxy(network.proxy, context.cluster) or proxy_for(config.cluster.server),
        tls_server_name=network.tls_server_name,
        impersonation=_impersonation(user, context.user or "") if user else (),
        plugin_cluster=_plugin_cluster(user, cluster),
    )


def _referenced(merged: _Merged, section: _Section, name: str, context: str) -> _Entry:
    entry = merged.entries.get((section, name))
    if entry is None:
        origin = merged.entries["context", context].origin
        raise _invalid(
            f"context {context!r} of {origin} refers to {section} {name!r}, which is not defined"
        )
    return entry


def _cluster(entry: _Entry, name: str) -> Cluster:
    cluster = _converted(entry, Cluster, "cluster", name)
    cluster.certificate_auth = _absolute(cluster.certificate_auth, entry)
    return cluster


def _user(entry: _Entry, name: str) -> User:
    if entry.body.get("auth-provider"):
        raise _invalid(
            f"user {name!r} of {entry.origin} uses auth-provider, which Kubernetes has removed; "
            "use exec with the credential plugin of the provider"
        )
    user = _converted(entry, User, "user", name)
    user.token_file = _absolute(user.token_file, entry)
    user.client_cert = _absolute(user.client_cert, entry)
    user.client_key = _absolute(user.client_key, entry)
    if user.exec and "/" in user.exec.command:
        user.exec.command = _absolute(user.exec.command, entry) or ""
    return user


def _absolute(name: str | None, entry: _Entry) -> str | None:
    return str(entry.origin.parent / name) if name else None


def _converted(entry: _Entry, kind: type[_T], section: _Section, name: str) -> _T:
    try:
        # Null is how YAML leaves a field out.
        given = {key: value for key, value in entry.body.items() if value is not None}
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _invalid(f"{section} {name!r} of {entry.origin} is malformed") from error


def _proxy(given: str, cluster: str) -> str | None:
    if not given:
        return None
    parts = urlsplit(given)
    if parts.scheme not in _PROXY_SCHEMES or not parts.hostname:
        raise _invalid(
            f"proxy-url of cluster {cluster!r} is not supported; use http://HOST:PORT or "
            "https://HOST:PORT"
        )
    if parts.password:
        redaction.process.add(parts.password)
    return given


def _impersonation(entry: _Entry, name: str) -> tuple[Header, ...]:
    given = _converted(entry, _Impersonation, "user", name)
    if not given.user:
        if given.uid or given.groups or given.extra:
            raise _invalid(f"user {name!r} of {entry.origin} sets as-… fields without as; set as")
        return ()
    pairs = [("Impersonate-User", given.user)]
    pairs += [("Impersonate-Uid", given.uid)] if given.uid else []
    pairs += [("Impersonate-Group", group) for group in given.groups]
    for key, values in given.extra.items():
        header = f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}"
        pairs += [(header, value) for value in values]
    return tuple((header.encode(), value.encode()) for header, value in pairs)


def _plugin_cluster(user: _Entry | None, cluster: _Entry) -> Mapping[str, Any] | None:
    """`spec.cluster` of an ExecCredential, for a plugin with provideClusterInfo."""
    plugin = user.body.get("exec") if user else None
    if not isinstance(plugin, dict) or not plugin.get("provideClusterInfo"):
        return None
    body = cluster.body
    info = {key: body[key] for key in _PLUGIN_CLUSTER_FIELDS if body.get(key)}
    if authority := _authority(cluster):
        info["certificate-authority-data"] = authority
    for extension in body.get("extensions") or ():
        if extension.get("name") == _EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return info


def _authority(cluster: _Entry) -> str:
    data, path = (cluster.body.get(f"certificate-authority{end}") for end in ("-data", ""))
    if data or not path:
        return str(data or "")
    try:
        return base64.b64encode((cluster.origin.parent / path).read_bytes()).decode()
    except OSError as error:
        raise _invalid(
            f"certificate-authority {path} of {cluster.origin} cannot be read"
        ) from error


def _from_pod() -> Access:
    try:
        config = KubeConfig.from_service_account().get()
    except (ConfigError, KeyError, OSError) as error:
        raise Stalled(
            "KubeconfigMissing",
            "no cluster configured: specify --kubeconfig, set KUBECONFIG, "
            f"create {DEFAULT_KUBECONFIG}, or run in a pod with a service account",
        ) from error
    assert config is not None
    return Access(config, proxy=proxy_for(config.cluster.server))


def _invalid(message: str) -> Stalled:
    return Stalled("KubeconfigInvalid", message)


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
