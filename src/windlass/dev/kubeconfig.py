"""Kubeconfigs of a desk cluster, and the mark by which they are known.

The mark is an extension of the cluster entry. It holds no secret: the cluster's name
and the address at which its API server reaches webhooks on this machine. Whoever acts
only on desk clusters (`windlass run --dev`) asks `desk_mark` first.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from windlass.dev.certificates import Pair

EXTENSION = "windlass.dev/desk"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DeskMark:
    """What `windlass dev` left in a kubeconfig it made."""

    name: str
    webhook_host: str


def render(
    *,
    name: str,
    server: str,
    authority: bytes,
    user: str,
    pair: Pair,
    webhook_host: str = LOOPBACK,
) -> str:
    """A kubeconfig with everything inside it: one cluster, one user, one context."""
    cluster, context = f"windlass-{name}", f"{user}@windlass-{name}"
    mark = {
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
        "extensions": [mark],
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


def desk_mark(kubeconfig: Path) -> DeskMark | None:
    """The mark of the current context's cluster; None for a cluster we did not make."""
    try:
        document = yaml.load(kubeconfig.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return mark_in(document)


def mark_in(document: Any) -> DeskMark | None:
    """The mark in a parsed kubeconfig, which may be any foreign thing."""
    context = _entry(document, "contexts", "context", _get(document, "current-context"))
    cluster = _entry(document, "clusters", "cluster", _get(context, "cluster"))
    extension = _entry(cluster, "extensions", "extension", EXTENSION)
    name, host = _get(extension, "name"), _get(extension, "webhookHost")
    if isinstance(name, str) and isinstance(host, str):
        return DeskMark(name, host)
    return None


def _entry(document: Any, plural: str, singular: str, name: Any) -> Any:
    entries = _get(document, plural)
    for entry in entries if isinstance(entries, list) else ():
        if name is not None and _get(entry, "name") == name:
            return _get(entry, singular)
    return None


def _get(document: Any, key: str) -> Any:
    return document.get(key) if isinstance(document, dict) else None


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode("ascii")
