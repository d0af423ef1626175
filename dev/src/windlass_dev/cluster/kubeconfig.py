"""Kubeconfigs of a local cluster, and the extension by which they are recognized.

The extension belongs to the cluster entry. It holds no secret: the cluster's name
and the address at which its API server reaches webhooks on this machine. A command that
acts on local clusters only (`windlass run --dev`) reads it with `read_extension` first.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from windlass_dev.cluster.pki import KeyPair

EXTENSION = "windlass.dev/desk"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ClusterExtension:
    """The extension that `windlass dev` writes into every kubeconfig of a local cluster."""

    name: str
    """The name of the cluster."""
    webhook_host: str
    """The address at which its API server reaches webhooks on this machine."""


def render_kubeconfig(
    *,
    name: str,
    server: str,
    authority: bytes,
    user: str,
    pair: KeyPair,
    webhook_host: str = LOOPBACK,
) -> str:
    """The text of a kubeconfig with certificates inlined: one cluster, one user, one context."""
    cluster, context = f"windlass-{name}", f"{user}@windlass-{name}"
    extension = {
        "name": EXTENSION,
        "extension": {
            "apiVersion": "windlass.dev/v1",
            "kind": "Desk",
            "name": name,
            "webhookHost": webhook_host,
        },
    }
    server_entry = {
        "server": server,
        "certificate-authority-data": _text(authority),
        "extensions": [extension],
    }
    user_entry = {
        "client-certificate-data": _text(pair.certificate),
        "client-key-data": _text(pair.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": server_entry}],
        "users": [{"name": user, "user": user_entry}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
    }
    return yaml.safe_dump(document, sort_keys=False, width=4096)


def read_extension(kubeconfig: Path) -> ClusterExtension | None:
    """Read the extension of the current context's cluster; None for any other cluster."""
    try:
        document = yaml.load(kubeconfig.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return find_extension(document)


def find_extension(document: Any) -> ClusterExtension | None:
    """The extension in a parsed kubeconfig, which may be any YAML value."""
    context = _entry(document, "contexts", "context", _get_key(document, "current-context"))
    cluster = _entry(document, "clusters", "cluster", _get_key(context, "cluster"))
    extension = _entry(cluster, "extensions", "extension", EXTENSION)
    name, host = _get_key(extension, "name"), _get_key(extension, "webhookHost")
    if isinstance(name, str) and isinstance(host, str):
        return ClusterExtension(name, host)
    return None


def _entry(document: Any, plural: str, singular: str, name: Any) -> Any:
    entries = _get_key(document, plural)
    for entry in entries if isinstance(entries, list) else ():
        if name is not None and _get_key(entry, "name") == name:
            return _get_key(entry, singular)
    return None


def _get_key(document: Any, key: str) -> Any:
    return document.get(key) if isinstance(document, dict) else None


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode("ascii")
