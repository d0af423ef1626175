"""What a snapshot allows, and whose a path is."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.objects.gvr import GVK, GVR
from windlass.objects.identity import Identity
from windlass.objects.json import Object
from windlass.objects.key import Key
from windlass.reverser.decide import occupancy, snapshot
from windlass.reverser.decide.catalogue import Catalogue, Type
from windlass.reverser.decide.occupancy import Standing
from windlass.reverser.decide.plan import Plan
from windlass.reverser.decide.rules import Resolution, Selection
from windlass.reverser.decide.snapshot import Answer

CONFIGMAPS = GVR("", "v1", "configmaps")
CONFIGMAP = GVK("", "v1", "ConfigMap")
PATH = "base/v1/configmaps/ns/a.yaml"


def seed(identity: Identity, kind: str) -> str:
    """A layout like that of the seed, without its encoding."""
    segments = [*identity.gvr.api_version.split("/"), identity.gvr.resource, identity.namespace]
    return "/".join(["base", *filter(None, segments), f"{identity.name}.yaml"])


def by_kind(identity: Identity, kind: str) -> str:
    """A layout that names the kind and not the resource."""
    return f"base/{identity.gvr.group or 'core'}/{kind}/{identity.namespace}/{identity.name}.yaml"


def twice(identity: Identity, kind: str) -> str:
    """A layout that names the resource in two places."""
    resource = identity.gvr.resource
    return f"base/{resource}/{identity.namespace}/{resource}/{identity.name}.yaml"


def content(name: Any = "a", namespace: Any = "ns", **given: Any) -> Object:
    """A ConfigMap as a file holds it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        **given,
    }


SERVED = Catalogue.of([Type(CONFIGMAPS, "ConfigMap", True, frozenset(), True)])


@pytest.mark.parametrize(
    ("answer", "complete"),
    [
        (Answer(200, ended=True), True),
        (Answer(200, ended=False), False),
        (Answer(403, ended=True), False),
        (Answer(500, ended=True), False),
        (Answer(200, ended=True, every_item_identified=False), False),
    ],
)
def test_complete_means_all_of_it(answer: Answer, complete: bool) -> None:
    """SNP-1: every page or the end bookmark, with 200, every item with an identity."""
    assert answer.complete is complete


def test_candidates_are_the_files_without_a_live_object() -> None:
    """SNP-2: what is live is never a candidate."""
    assert snapshot.candidates(["c", "a", "b"], {"b", "x"}) == ("a", "c")
    assert snapshot.candidates([], {"b"}) == ()


def test_empty_answer_is_no_proof() -> None:
    """SNP-4: an empty answer beside existing files needs confirmation, a full one does not."""
    assert snapshot.needs_confirmation(list_empty=True, candidates=["a"])
    assert not snapshot.needs_confirmation(list_empty=False, candidates=["a"])
    assert not snapshot.needs_confirmation(list_empty=True, candidates=[])


def test_only_confirmed_candidates_go() -> None:
    """SNP-4, SNP-5: without need of confirmation all go at once; else the confirmed ones."""
    assert snapshot.removable(["a", "b"], None) == ("a", "b")
    found = snapshot.removable(["a", "b", "c", "d"], {"a": "gone", "b": "live", "c": "unknown"})
    assert found == ("a",)


@pytest.mark.parametrize(("claimed", "expected"), [(True, True), (False, False)])
def test_what_we_wrote_is_ours_under_our_claim(claimed: bool, expected: bool) -> None:
    """SNP-3: (a) written by this process, (b) path of a live object; both need the claim."""

    def ours(path: str) -> bool:
        return snapshot.managed_unread(path, claim_is_ours=claimed, written={"a"}, live={"b"})

    assert ours("a") is ours("b") is expected
    assert not ours("c")


def test_content_that_belongs_there_is_ours() -> None:
    """SNP-3: (c) under the present layout or that of the claim."""
    assert snapshot.managed(PATH, content(), "base", [seed], SERVED)
    assert snapshot.managed(PATH, content(), "base", [by_kind, seed], SERVED)
    assert not snapshot.managed(PATH, content(), "base", [by_kind], SERVED)


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        (PATH, None),
        (PATH, {}),
        (PATH, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}),
        (PATH, content(name="b")),
        (PATH, content(name="")),
        (PATH, content(name=7)),
        (PATH, content(namespace="other")),
        (PATH, content(namespace=None)),
        (PATH, content(kind="Secret")),
        (PATH, content(kind=["ConfigMap"])),
        (PATH, content(apiVersion="apps/v1")),
        (PATH, content(apiVersion=1)),
        ("base/v1/configmaps/ns/kustomization.yaml", content()),
        ("base/README.md", content()),
    ],
)
def test_content_that_belongs_elsewhere_is_foreign(path: str, stored: Object | None) -> None:
    """SNP-3: paths are never parsed into identities; the content must name this very path."""
    assert not snapshot.managed(path, stored, "base", [seed, by_kind], SERVED)


@pytest.mark.parametrize("base", ["bas", "base/v1/configmaps/ns/a.yaml", "other"])
def test_nothing_outside_the_folder_is_ours(base: str) -> None:
    """P3: even a layout that says otherwise does not reach out of the destination."""
    assert not snapshot.managed(PATH, content(), base, [seed], SERVED)


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("base/example.com/v1/gadgets/ns/a.yaml", True),
        ("base/example.com/v1/gadgets/other/a.yaml", False),
        ("base/example.com/v1/ns/a.yaml", False),
        ("base/example.com/v1/x/y/ns/a.yaml", False),
        ("base/example.com/v1/G%41/ns/a.yaml", False),
        ("base/example.com/v1//ns/a.yaml", False),
        ("base/v1/gadgets/ns/a.yaml", False),
        ("base", False),
    ],
)
def test_unserved_type_leaves_the_resource_free(path: str, fits: bool) -> None:
    """SNP-3: without the plural of a kind one segment may be anything, all else must agree."""
    stored = content(apiVersion="example.com/v1", kind="Gadget")
    assert snapshot.managed(path, stored, "base", [seed], SERVED) is fits


def test_resource_of_a_served_kind_is_not_free() -> None:
    """SNP-3: an unknown kind put where ConfigMaps stand was not written by us."""
    assert not snapshot.managed(PATH, content(kind="ConfigMop"), "base", [seed], SERVED)


def test_free_resource_is_the_same_wherever_it_stands() -> None:
    """SNP-3: a layout that names the resource twice binds both places."""
    stored = content(apiVersion="example.com/v1", kind="Gadget")
    both = [twice]
    assert snapshot.managed("base/gadgets/ns/gadgets/a.yaml", stored, "base", both, SERVED)
    assert not snapshot.managed("base/gadgets/ns/gizmoss/a.yaml", stored, "base", both, SERVED)


def test_layout_without_resource_is_compared_as_it_is() -> None:
    """SNP-3: a layout by kind needs no plural."""
    stored = content(apiVersion="example.com/v1", kind="Gadget")
    path = "base/example.com/Gadget/ns/a.yaml"
    assert snapshot.managed(path, stored, "base", [by_kind], SERVED)


def test_name_of_the_free_place_opens_nothing() -> None:
    """SNP-3: an object that calls itself like our placeholder is not matched loosely."""
    stored = content(name="windlass-any-resource", apiVersion="example.com/v1", kind="Gadget")
    path = "base/example.com/v1/gadgets/ns/gadgets.yaml"
    assert not snapshot.managed(path, stored, "base", [seed], SERVED)


def test_hand_written_file_of_the_same_object_is_adopted() -> None:
    """SNP-10: same type, kind, namespace and name, whatever else it says."""
    identity = Identity(CONFIGMAPS, "ns", "a")
    assert snapshot.same_identity(content(data={"x": "y"}), identity, "ConfigMap")
    assert not snapshot.same_identity(content(kind="Secret"), identity, "ConfigMap")
    assert not snapshot.same_identity(content(name="b"), identity, "ConfigMap")
    assert not snapshot.same_identity(None, identity, "ConfigMap")


DESTINATION = Key("platform", "prod")
MANAGED = {
    "base/v1/configmaps/ns/a.yaml": Identity(CONFIGMAPS, "ns", "a"),
    "base/v1/configmaps/old/a.yaml": Identity(CONFIGMAPS, "old", "a"),
    "base/broken.io/v1/things/ns/a.yaml": Identity(GVR("broken.io", "v1", "things"), "ns", "a"),
}
PLAN = Plan(
    [(DESTINATION, Resolution((Selection(CONFIGMAPS, "ns", frozenset({"CREATE"}), False),)))]
)


def test_files_without_cover_are_inferred_deletes() -> None:
    """SNP-7: a narrowed rule gives up its files, those of a failed group excepted."""
    catalogue = Catalogue((), failed_groups=frozenset({"broken.io/v1"}))
    found = snapshot.uncovered(MANAGED, DESTINATION, PLAN, catalogue, rules_settled=True)
    assert found == ("base/v1/configmaps/old/a.yaml",)


def test_unsettled_rules_give_up_nothing() -> None:
    """SNP-7: a broken, unresolvable or denied rule never counts as removed."""
    empty = Catalogue(())
    assert snapshot.uncovered(MANAGED, DESTINATION, Plan(), empty, rules_settled=False) == ()
    assert len(snapshot.uncovered(MANAGED, DESTINATION, Plan(), empty, rules_settled=True)) == 3


MODES = {
    "base/file.yaml": 0o100644,
    "base/run.sh": 0o100755,
    "base/link.yaml": 0o120000,
    "base/module": 0o160000,
    "base/dir/inner.yaml": 0o100644,
}
DIRECTORIES = occupancy.directories(MODES)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("base/new.yaml", "nothing"),
        ("base/new/deep/a.yaml", "nothing"),
        ("base/file.yaml", "file"),
        ("base/run.sh", "file"),
        ("base/link.yaml", "link"),
        ("base/module", "link"),
        ("base/dir", "directory"),
        ("base", "directory"),
        ("base/file.yaml/a.yaml", "beneath-file"),
        ("base/link.yaml/b/a.yaml", "beneath-file"),
        ("base/module/a.yaml", "beneath-file"),
    ],
)
def test_what_stands_at_a_path(path: str, expected: Standing) -> None:
    """SNP-10: the modes of the tree say what is there."""
    assert occupancy.standing(path, MODES, DIRECTORIES) == expected


@pytest.mark.parametrize(
    ("found", "claimed", "same", "expected"),
    [
        ("nothing", False, False, False),
        ("file", False, True, False),
        ("file", False, False, True),
        ("file", True, False, False),
        ("link", False, True, True),
        ("link", True, False, False),
        ("directory", True, True, True),
        ("directory", False, True, True),
        ("beneath-file", True, True, True),
        ("beneath-file", False, False, True),
    ],
)
def test_what_counts_as_occupied(
    found: Standing, claimed: bool, same: bool, expected: bool
) -> None:
    """SNP-10: before the claim foreign entries are left, under it they are restored."""
    assert occupancy.occupied(found, claimed=claimed, same_identity=same) is expected
