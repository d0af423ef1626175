"""The inventory: applied objects, and which of them may be pruned."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET, build_bundle
from windlass.api.install.environment_objects import ALLOWED_KINDS
from windlass.environments import inventory
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle.bundle import Bundle
from windlass.environments.bundle.labeling import PRUNE
from windlass.environments.inventory import FIELD_MANAGER, InventoryEntry
from windlass.objects.names import Object

WEB = InventoryEntry("apps", "Deployment", "web", "u1")
DATA = InventoryEntry("", "PersistentVolumeClaim", "data", "u2")


def _bundle(*objects: Object) -> Bundle:
    return build_bundle(objects, TARGET)


def _live(obj: Object, uid: str, manager: str = FIELD_MANAGER) -> Any:
    [member] = _bundle(obj).members
    metadata = {
        **member.object["metadata"],
        "uid": uid,
        "managedFields": [{"manager": manager, "operation": "Apply"}],
    }
    return {**member.object, "metadata": metadata}


def test_everything_is_listed_before_it_is_applied() -> None:
    """A known object keeps its uid."""
    wide = inventory.add_bundle((WEB,), _bundle(written.deployment(), written.service()))
    assert wide == (InventoryEntry("", "Service", "web"), WEB)


def test_uids_are_noted() -> None:
    """Also a new one, where an object was recreated."""
    listed = (InventoryEntry("", "Service", "web"), WEB)
    noted = inventory.with_uids(listed, [_live(written.deployment(), "u9")])
    assert noted == (
        InventoryEntry("", "Service", "web"),
        InventoryEntry("apps", "Deployment", "web", "u9"),
    )


@pytest.mark.scenario("E70")
def test_an_object_that_is_no_longer_desired_is_stale() -> None:
    """By group, kind and name; the same name of another kind is another object."""
    assert inventory.stale_entries((WEB, DATA), _bundle(written.service("web"))) == (WEB, DATA)
    assert inventory.stale_entries((WEB, DATA), _bundle(written.deployment("web"))) == (DATA,)
    assert inventory.remove_entries((WEB, DATA), [WEB]) == (DATA,)


@pytest.mark.scenario("E70")
def test_an_applied_object_may_be_pruned() -> None:
    """The very object that was noted, with our ownership label."""
    assert inventory.may_delete(WEB, _live(written.deployment(), "u1"), OWNER.uid)


def test_an_object_that_another_client_created_instead_stays() -> None:
    """Also if it is a copy with our labels."""
    assert not inventory.may_delete(WEB, _live(written.deployment(), "u7", "kubectl"), OWNER.uid)
    unknown = InventoryEntry("apps", "Deployment", "web")
    assert not inventory.may_delete(
        unknown, _live(written.deployment(), "u7", "kubectl"), OWNER.uid
    )


@pytest.mark.parametrize("noted", ["", "u0"])
def test_an_object_applied_before_a_crash_may_be_pruned(noted: str) -> None:
    """Its uid was never noted, or that of its predecessor; managedFields show who applied it."""
    entry = InventoryEntry("apps", "Deployment", "web", noted)
    assert inventory.may_delete(entry, _live(written.deployment(), "u1"), OWNER.uid)


def test_an_object_without_the_ownership_label_stays() -> None:
    """Removing the label takes it out of our ownership."""
    live = _live(written.deployment(), "u1")
    assert not inventory.may_delete(WEB, live, "uid-of-another")
    del live["metadata"]["labels"]["catalyst.dev/environment-uid"]
    assert not inventory.may_delete(WEB, live, OWNER.uid)


@pytest.mark.scenario("E70")
@pytest.mark.parametrize(
    ("annotation", "is_pruned"), [(None, False), ("false", False), ("true", True)]
)
def test_volumes_are_pruned_only_by_annotation(annotation: str | None, is_pruned: bool) -> None:
    """A claim that is no longer desired stays, unless it is annotated."""
    claim = written.make_object("v1", "PersistentVolumeClaim", "data")
    if annotation is not None:
        claim["metadata"]["annotations"] = {PRUNE: annotation}
    assert inventory.may_delete(DATA, _live(claim, "u2"), OWNER.uid) is is_pruned


def test_a_job_that_ran_is_done_for_this_revision() -> None:
    """Also when it is cleaned up; a changed one runs again."""
    [member] = _bundle(written.job()).members
    listed = inventory.add_bundle((), _bundle(written.job()))
    assert not inventory.is_finished(listed, member)
    ran = inventory.mark_finished(listed, {listed[0].identity: member.applied_hash})
    assert inventory.is_finished(ran, member)
    [changed] = _bundle(written.job(pod=written.container(command=["x"]))).members
    assert not inventory.is_finished(ran, changed)
    assert inventory.is_finished(inventory.add_bundle(ran, _bundle(written.job())), member)


def test_a_lost_inventory_is_recovered() -> None:
    """From objects that we applied, and from nothing else."""
    template = _live(written.deployment("made"), "u5")
    made = {
        **template,
        "metadata": {**template["metadata"], "annotations": {}, "name": "made-by-controller"},
    }
    own = _live(written.make_object("v1", "ConfigMap", "x"), "u6")
    del own["metadata"]["annotations"][bundles.APPLIED_HASH]
    foreign = _live(written.service("other"), "u8")
    foreign["metadata"]["labels"] = {}
    live = [_live(written.service(), "u4"), _live(written.deployment(), "u1"), made, own, foreign]
    assert inventory.recover_inventory(live, OWNER.uid) == (
        InventoryEntry("", "Service", "web", "u4"),
        WEB,
    )


@pytest.mark.parametrize("kind", sorted(ALLOWED_KINDS))
def test_every_allowed_kind_has_a_resource(kind: tuple[str, str]) -> None:
    """And one that is no longer allowed has none."""
    assert inventory.entry_gvr(InventoryEntry(*kind, "x")) == ALLOWED_KINDS[kind].gvr
    assert inventory.entry_gvr(InventoryEntry("example.org", kind[1], "x")) is None
