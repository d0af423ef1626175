"""CRDs: structural, bounded, and silent about addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from windlass.api import crd
from windlass.api.kind import Kind
from windlass.api.registry import KINDS, kind_of

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _schema(kind: Kind) -> dict[str, Any]:
    (version,) = crd.document(kind)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from _nodes(field, f"{path}.{name}")
    if "items" in schema:
        yield from _nodes(schema["items"], f"{path}[]")


@every_kind
def test_every_field_is_described(kind: Kind) -> None:
    """`kubectl explain` has a sentence for each field."""
    bare = [
        path
        for path, node in _nodes(_schema(kind))
        if not path.endswith("[]") and path != ".metadata" and not node.get("description")
    ]
    assert bare == []


@every_kind
def test_every_input_is_bounded(kind: Kind) -> None:
    """Each text and list of a spec has an upper bound, so that rule costs can be estimated."""
    spec = _schema(kind)["properties"]["spec"]
    open_ends = [
        path
        for path, node in _nodes(spec)
        if (node["type"] == "array" and "maxItems" not in node)
        or (node["type"] == "string" and not {"maxLength", "enum"} & node.keys())
    ]
    assert open_ends == []


@every_kind
def test_every_list_says_how_it_merges(kind: Kind) -> None:
    """Server-side apply knows what to do with each list."""
    silent = [
        path
        for path, node in _nodes(_schema(kind))
        if node.get("type") == "array" and "x-kubernetes-list-type" not in node
    ]
    assert silent == []


def test_no_rule_stands_on_the_address_itself() -> None:
    """Rules about repoUrl stand on its parent, with the path of the field."""
    spec = _schema(kind_of("GitRepoConfig"))["properties"]["spec"]
    address = spec["properties"]["repoUrl"]
    assert set(address) == {"description", "type", "minLength", "maxLength"}
    assert {rule["fieldPath"] for rule in spec["x-kubernetes-validations"]} == {".repoUrl"}


def test_required_and_defaults() -> None:
    """Fields without default are required; scalars publish their default."""
    spec = _schema(kind_of("GitDestination"))["properties"]["spec"]
    assert spec["required"] == ["repoRef", "branch", "baseFolder"]
    assert spec["properties"]["createBranch"]["default"] is False
    assert "default" not in spec["properties"]["allowedNamespaces"]
    assert "default" not in spec["properties"]["repoRef"]["properties"]["namespace"]


@every_kind
def test_names(kind: Kind) -> None:
    """Names, categories, scope and the status subresource are those of the specification."""
    document = crd.document(kind)
    assert document["metadata"]["name"] == f"{kind.plural}.configbutler.ai"
    assert document["spec"]["names"]["categories"] == ["windlass", "configbutler"]
    cluster = kind.name == "ClusterWatchRule"
    assert document["spec"]["scope"] == ("Cluster" if cluster else "Namespaced")
    assert document["spec"]["versions"][0]["subresources"] == {"status": {}}


def test_short_names() -> None:
    """The short names of all kinds are distinct and known."""
    assert [kind.short_names for kind in KINDS] == [("grc",), ("gdest",), ("wrule",), ("cwrule",)]
