"""Types from discovery documents."""

from __future__ import annotations

from typing import Any

from windlass.kube import discovery
from windlass.kube.discovery import ApiTypes, GroupVersionTypes, ServedType
from windlass.objects.names import GVK, GVR


def _resource(plural: str, kind: str, scope: str = "Namespaced", **more: Any) -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": scope,
        "verbs": ["get", "list", "watch"],
        **more,
    }


def _aggregated(group: str, *versions: dict[str, Any]) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": group}, "versions": list(versions)}]}


def _served(group: str, version: str, plural: str) -> ServedType:
    return ServedType(GVR(group, version, plural), "Thing", True, frozenset({"list"}), True)


def test_aggregated() -> None:
    """The first version is preferred; scope, verbs and names are kept."""
    document = _aggregated(
        "x.io",
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                _resource(
                    "things",
                    "Thing",
                    singularResource="thing",
                    shortNames=["th"],
                    subresources=[{"subresource": "status", "verbs": ["get"]}],
                )
            ],
        },
        {"version": "v1beta1", "resources": [_resource("things", "Thing", "Cluster")]},
    )
    discovered = discovery.merge_group_versions(discovery.from_aggregated(document), None)
    first, second = discovered.types
    assert first.gvr == GVR("x.io", "v1", "things")
    assert (first.preferred, first.namespaced, first.singular) == (True, True, "thing")
    assert first.short_names == ("th",)
    assert first.verbs == {"get", "list", "watch"}
    assert (second.preferred, second.namespaced) == (False, False)
    assert discovered.is_complete


def test_subresource_only() -> None:
    """A plural without a kind of its own is not a type, but it is recorded."""
    bare = {"resource": "ghosts", "scope": "Namespaced", "subresources": [{"subresource": "scale"}]}
    document = _aggregated("x.io", {"version": "v1", "resources": [bare]})
    discovered = discovery.merge_group_versions(discovery.from_aggregated(document), None)
    assert discovered.types == ()
    assert discovered.subresource_only == {GVR("x.io", "v1", "ghosts")}


def test_shared_kinds() -> None:
    """Two plurals of one kind in one group version cannot be distinguished by kind."""
    resources = [_resource("things", "Thing"), _resource("thingies", "Thing")]
    document = _aggregated("x.io", {"version": "v1", "resources": resources})
    discovered = discovery.merge_group_versions(discovery.from_aggregated(document), None)
    assert discovered.shared_kinds == {GVK("x.io", "v1", "Thing")}


def test_stale_keeps_previous() -> None:
    """A stale version is failed and keeps its previous types, not those of the document."""
    previous = ApiTypes((_served("x.io", "v1", "things"), _served("y.io", "v1", "others")))
    document = _aggregated("x.io", {"version": "v1", "freshness": "Stale", "resources": []})
    discovered = discovery.merge_group_versions(discovery.from_aggregated(document), previous)
    assert discovered.failed_groups == {"x.io/v1"}
    assert [served.gvr.resource for served in discovered.types] == ["things"]
    assert not discovered.is_complete


def test_first_scan_of_a_stale_version() -> None:
    """Without previous types the stale document is used."""
    document = _aggregated(
        "x.io",
        {"version": "v1", "freshness": "Stale", "resources": [_resource("things", "Thing")]},
    )
    discovered = discovery.merge_group_versions(discovery.from_aggregated(document), None)
    assert discovered.failed_groups == {"x.io/v1"}
    assert len(discovered.types) == 1


def test_an_absent_group_has_no_types() -> None:
    """A group that a complete scan does not name is removed."""
    previous = ApiTypes((_served("x.io", "v1", "things"),))
    assert discovery.merge_group_versions([], previous) == ApiTypes(())


def test_core_is_failed_by_its_version() -> None:
    """The core group's failure is called v1."""
    discovered = discovery.merge_group_versions(
        [GroupVersionTypes("", "v1", True, failed=True)], None
    )
    assert discovered.failed_groups == {"v1"}
