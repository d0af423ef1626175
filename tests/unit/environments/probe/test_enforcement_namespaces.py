"""Which namespaces a network probe treats as leftovers."""

from __future__ import annotations

from typing import Any

from windlass.environments.isolation import network_policies
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.probe import enforcement


def _live(run: str, created: str, **metadata: Any) -> dict[str, Any]:
    live = enforcement.namespace_object(enforcement.namespace_names(run)[0], run)
    return {**live, "metadata": {**live["metadata"], "creationTimestamp": created, **metadata}}


def test_only_labeled_and_old_namespaces_are_leftovers() -> None:
    """Young ones and our own may be in use; labels alone make nothing a probe's."""
    own = _live("own", "2026-01-02T12:00:00Z")
    old = _live("old", "2026-01-02T09:59:59Z")
    young = _live("young", "2026-01-02T10:00:01Z")
    going = _live("going", "2026-01-01T00:00:00Z", deletionTimestamp="now")
    plain = _live("plain", "2026-01-01T00:00:00Z", labels={"team": "a"})
    labelled = _live("labelled", "2026-01-01T00:00:00Z", name="production")
    left, fresh = enforcement.other_runs([own, old, young, going, plain, labelled], own)
    assert left == [old]
    assert fresh == [young]


def test_the_policies_are_those_of_environments() -> None:
    """The probe measures the policies that are used."""
    specs = {
        row["metadata"]["name"]: row["spec"] for row in enforcement.isolation_policies("place")
    }
    assert specs == network_policies.desired_policies((), ClusterNetwork(), web_egress=False)
    assert {"default-policy", "allow-same-namespace"} <= specs.keys()
