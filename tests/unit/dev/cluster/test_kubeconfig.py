"""Kubeconfig text and its marker."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from windlass_dev.cluster import kubeconfig
from windlass_dev.cluster.pki import KeyPair


def _document() -> dict[str, Any]:
    text = kubeconfig.render_kubeconfig(
        name="x",
        server="https://127.0.0.1:3",
        authority=b"CA",
        user="alice",
        pair=KeyPair(b"CERT", b"KEY"),
    )
    document = yaml.safe_load(text)
    assert isinstance(document, dict)
    return document


def test_a_kubeconfig_is_self_contained() -> None:
    """One file, no paths to others."""
    document = _document()
    assert document["current-context"] == "alice@windlass-x"
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:3"
    key = document["users"][0]["user"]["client-key-data"]
    assert base64.b64decode(key) == b"KEY"


def test_a_kubeconfig_has_a_marker_without_secrets() -> None:
    """Commands for local clusters only recognize them by it."""
    document = _document()
    assert kubeconfig.find_extension(document) == kubeconfig.ClusterExtension("x", "127.0.0.1")
    extension = document["clusters"][0]["cluster"]["extensions"][0]
    assert extension["name"] == "windlass.dev/desk"
    assert set(extension["extension"]) == {"apiVersion", "kind", "name", "webhookHost"}


def test_the_marker_is_that_of_the_current_context() -> None:
    """A merged kubeconfig with another current context is not a local cluster."""
    document = _document()
    document["clusters"].append({"name": "other", "cluster": {"server": "https://prod"}})
    document["contexts"].append({"name": "prod", "context": {"cluster": "other"}})
    document["current-context"] = "prod"
    assert kubeconfig.find_extension(document) is None


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        {},
        {"contexts": {}, "current-context": "x"},
        {"contexts": [None, 3], "clusters": [{}], "current-context": "x"},
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [
                {
                    "name": "k",
                    "cluster": {
                        "extensions": [{"name": "windlass.dev/desk", "extension": {"name": 3}}]
                    },
                }
            ],
        },
    ],
)
def test_foreign_kubeconfigs_have_no_marker(document: Any) -> None:
    """They are not a local cluster, and not an error."""
    assert kubeconfig.find_extension(document) is None
