"""CRDs: structural, bounded, and without addresses in messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster.api_kinds import get_kind
from windlass.api.install import crd
from windlass.api.kinds.registry import KINDS
from windlass.api.schema.kind import Kind

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _schema(kind: Kind) -> dict[str, Any]:
    (version,) = crd.crd_manifest(kind)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from _nodes(field, f"{path}.{name}")
    if "items" in schema:
        yield from _nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from _nodes(schema["additionalProperties"], f"{path}[]")


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
        if (node.get("type") == "array" and "maxItems" not in node)
        or (node.get("type") != "array" and _is_open_text(node))
        or ("additionalProperties" in node and "maxProperties" not in node)
    ]
    assert open_ends == []


def _is_open_text(node: dict[str, Any]) -> bool:
    textual = node.get("type") == "string" or "x-kubernetes-int-or-string" in node
    return textual and not {"maxLength", "enum"} & node.keys()


@every_kind
def test_every_list_declares_how_it_merges(kind: Kind) -> None:
    """Server-side apply knows how to merge each list."""
    silent = [
        path
        for path, node in _nodes(_schema(kind))
        if node.get("type") == "array" and "x-kubernetes-list-type" not in node
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        ("GitRepoConfig", ".spec.repoUrl"),
        ("IgnitionSync", ".spec.git.repo"),
        ("Project", ".spec.sources[].repositoryUrl"),
        ("Project", ".spec.source.repositoryUrl"),
    ],
)
def test_no_rule_is_on_an_address_itself(kind: str, parent: str) -> None:
    """Rules about an address are on its parent, with the path of the field."""
    parent_path, _, field = parent.rpartition(".")
    nodes = dict(_nodes(_schema(get_kind(kind))))
    assert set(nodes[parent]) == {"description", "type", "minLength", "maxLength"}
    paths = [rule["fieldPath"] for rule in nodes[parent_path]["x-kubernetes-validations"]]
    assert paths == [f".{field}"] * 8


def test_required_and_defaults() -> None:
    """Fields without default are required; scalars publish their default."""
    spec = _schema(get_kind("GitDestination"))["properties"]["spec"]
    assert spec["required"] == ["repoRef", "branch", "baseFolder"]
    assert spec["properties"]["createBranch"]["default"] is False
    assert "default" not in spec["properties"]["allowedNamespaces"]
    assert "default" not in spec["properties"]["repoRef"]["properties"]["namespace"]


@every_kind
def test_names(kind: Kind) -> None:
    """Names, scope and the status subresource are those of the specification."""
    document = crd.crd_manifest(kind)
    assert document["metadata"]["name"] == f"{kind.plural}.{document['spec']['group']}"
    cluster = kind.name == "ClusterWatchRule"
    assert document["spec"]["scope"] == ("Cluster" if cluster else "Namespaced")
    assert document["spec"]["versions"][0]["subresources"] == {"status": {}}


def test_short_names() -> None:
    """The short names of all kinds are distinct and known."""
    assert [kind.short_names for kind in KINDS] == [
        ("grc",),
        ("gdest",),
        ("wrule",),
        ("cwrule",),
        ("isync", "igs"),
        ("proj", "cproj"),
        ("env", "cenv"),
    ]


def test_groups_and_categories() -> None:
    """Each capability has a group of its own, and all kinds share one category."""
    groups = {kind.name: (kind.gvr.group, kind.categories) for kind in KINDS}
    assert groups["WatchRule"] == ("configbutler.ai", ("windlass", "configbutler"))
    assert groups["IgnitionSync"] == ("sync.ignition.io", ("windlass",))
    assert groups["Project"] == ("catalyst.catalyst.dev", ("windlass", "catalyst"))
    assert groups["Environment"] == ("catalyst.catalyst.dev", ("windlass", "catalyst"))


def test_parents_have_defaults() -> None:
    """Objects whose presence has no meaning get a default, so that defaults below them apply."""
    spec = _schema(get_kind("IgnitionSync"))["properties"]["spec"]["properties"]
    filled = {name for name, node in spec.items() if node.get("default") == {}}
    assert filled == {"polling", "normalize", "ignition", "safety", "drift", "agent"}
    assert spec["ignition"]["properties"]["scan"]["default"] == {}
    assert spec["excludePatterns"]["default"] == ["**/.git/", "**/.gitkeep", "**/.resources/**"]
    assert "default" not in spec["profiles"]


def test_a_long_name_is_refused_by_the_root() -> None:
    """The name of an IgnitionSync becomes a label and has the same bound."""
    (rule,) = _schema(get_kind("IgnitionSync"))["x-kubernetes-validations"]
    assert rule["rule"] == "size(self.metadata.name) <= 63"
