"""The fields that a manager owns decide whether an object must be written."""

from __future__ import annotations

from typing import Any

from windlass.objects import managed_fields

MANAGER = "windlass-test"


def _live(spec: dict[str, Any], fields: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    row = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "one", **metadata, "managedFields": [row]},
        "spec": spec,
    }


def _desired(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec}


def test_defaults_of_the_server_are_not_ours() -> None:
    """A field that we did not apply is not a difference."""
    live = _live({"size": 1, "policy": "Always"}, {"f:spec": {"f:size": {}}})
    assert managed_fields.is_up_to_date(_desired({"size": 1}), live, MANAGER)


def test_a_field_that_is_no_longer_desired_is_a_difference() -> None:
    """A field that we own and no longer set must be removed."""
    live = _live({"size": 1, "old": 2}, {"f:spec": {"f:size": {}, "f:old": {}}})
    assert not managed_fields.is_up_to_date(_desired({"size": 1}), live, MANAGER)


def test_a_field_taken_over_is_a_difference() -> None:
    """A writer that changes our field owns it; then it is missing among ours."""
    live = _live({"size": 5}, {"f:spec": {}})
    assert not managed_fields.is_up_to_date(_desired({"size": 1}), live, MANAGER)


def test_a_manager_that_never_applied_owns_nothing() -> None:
    """An update by the same name is not an apply."""
    live = _live({"size": 1}, {"f:spec": {"f:size": {}}})
    live["metadata"]["managedFields"][0]["operation"] = "Update"
    assert managed_fields.owned_fields(live, MANAGER) is None
    assert not managed_fields.is_up_to_date(_desired({"size": 1}), live, MANAGER)


def test_items_of_others_between_ours_do_not_count() -> None:
    """Keyed lists are compared by our items, in their order."""
    fields = {
        "f:spec": {
            "f:ports": {
                'k:{"name":"a"}': {".": {}, "f:name": {}, "f:port": {}},
                'k:{"name":"b"}': {".": {}, "f:name": {}, "f:port": {}},
            }
        }
    }
    rows = [
        {"name": "a", "port": 1, "protocol": "TCP"},
        {"name": "x", "port": 9},
        {"name": "b", "port": 2},
    ]
    live = _live({"ports": rows}, fields)
    ours = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    assert managed_fields.is_up_to_date(_desired({"ports": ours}), live, MANAGER)
    assert not managed_fields.is_up_to_date(_desired({"ports": ours[::-1]}), live, MANAGER)


def test_the_order_of_a_whole_list_counts() -> None:
    """A command with its arguments reordered is another command."""
    live = _live({"command": ["a", "b"]}, {"f:spec": {"f:command": {}}})
    assert managed_fields.is_up_to_date(_desired({"command": ["a", "b"]}), live, MANAGER)
    assert not managed_fields.is_up_to_date(_desired({"command": ["b", "a"]}), live, MANAGER)


def test_quantities_are_compared_by_value_only_in_quantity_fields() -> None:
    """`1000m` is one CPU below limits, and another text anywhere else."""
    fields = {"f:spec": {"f:limits": {"f:cpu": {}}, "f:text": {}}}
    live = _live({"limits": {"cpu": "1"}, "text": "1"}, fields)
    assert managed_fields.is_up_to_date(
        _desired({"limits": {"cpu": "1000m"}, "text": "1"}), live, MANAGER
    )
    assert not managed_fields.is_up_to_date(
        _desired({"limits": {"cpu": 1}, "text": "1.0"}), live, MANAGER
    )


def test_nulls_and_empty_maps_are_ignored() -> None:
    """The server drops them."""
    live = _live({"size": 1}, {"f:spec": {"f:size": {}}})
    desired = _desired({"size": 1, "none": None, "empty": {}})
    assert managed_fields.is_up_to_date(desired, live, MANAGER)
