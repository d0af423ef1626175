"""Changes that wait for their push while nothing else happens."""

from __future__ import annotations

import functools
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
        waiting = _waiting_change(mirrored)
        request = {"metadata": {"annotations": {"windlass.dev/requestedAt": "now"}}}
        admin_user(mirrored).merge(*_DESTINATION, request)
        mirrored.await_condition(*_DESTINATION, "Synced", type_="Synced")
        assert _is_pushed(mirrored, waiting)


def _waiting_change(mirrored: MirroredNamespace) -> str:
    """The name of an object whose change was reported as waiting.

    A review of the folder, of which a start makes a few, takes a change along that waits for the
    commit window: then the next change is tried.
    """
    for number in range(10):
        name = f"waiting-{number}"
        mirrored.admin.apply(mirrored.config_map(name, a="1"))
        reason, message = eventually(
            functools.partial(_waiting_or_pushed, mirrored, name),
            f"{name} reported as waiting, or pushed with a review",
        )
        if reason == "CatchingUp":
            assert message == "1 change waiting to be pushed"
            return name
    raise AssertionError("every change was pushed at once, in spite of the commit window")


def _waiting_or_pushed(mirrored: MirroredNamespace, name: str) -> tuple[str, str] | None:
    synced = mirrored.condition(*_DESTINATION, "Synced")
    if synced["reason"] == "CatchingUp" or _is_pushed(mirrored, name):
        return synced["reason"], synced["message"]
    return None


def _is_pushed(mirrored: MirroredNamespace, name: str) -> bool:
    return any(path.endswith(f"/{name}.yaml") for path in mirrored.files())


def _objects(mirrored: MirroredNamespace) -> int:
    found: int = mirrored.admin.get(*_DESTINATION)["status"].get("objects", 0)
    return found
