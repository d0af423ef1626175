"""Changes that wait for their push while nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.operator import eventually, running_operator
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

_DESTINATION = ("gitdestination", "destination")


def test_changes_that_begin_to_wait_are_reported_without_a_check_of_the_remote(
    mirrored: MirroredNamespace, fault_cluster: LocalCluster, tmp_path: Path
) -> None:
    """2.2: nothing else has to happen for Synced to turn False, and True after the push."""
    flags = ("--capabilities=reverser", "--remote-check-interval=0s", "--removal-grace=1s")
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    with running_operator(fault_cluster, tmp_path / "operator", *flags, authors=False):
        mirrored.configured({"resources": ["configmaps"]}, destination={"commitWindow": "5m"})
        # Afterwards no other reconcile is due that would show the change by chance.
        mirrored.await_condition(*_DESTINATION, "Receiving", type_="Attributed")
        eventually(lambda: _objects(mirrored) == 1, "the first file reported")
        mirrored.admin.apply(mirrored.config_map("two", a="1"))
        row = mirrored.await_condition(*_DESTINATION, "CatchingUp", type_="Synced")
        assert row["message"] == "1 change waiting to be pushed"
        request = {"metadata": {"annotations": {"windlass.dev/requestedAt": "now"}}}
        admin_user(mirrored).merge(*_DESTINATION, request)
        mirrored.await_condition(*_DESTINATION, "Synced", type_="Synced")
        assert len(mirrored.files()) == 2


def _objects(mirrored: MirroredNamespace) -> int:
    found: int = mirrored.admin.get(*_DESTINATION)["status"].get("objects", 0)
    return found
