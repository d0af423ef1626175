"""The published routing and the hashes that name it."""

from __future__ import annotations

import msgspec
import pytest

from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire import routing
from windlass.gateways.wire.routing import (
    ANNOTATION_PREFIX,
    FieldRule,
    NormalizeRules,
    PatchSet,
    Routing,
    RoutingFile,
    RoutingMapping,
    RoutingProfile,
    hash_profile,
    hash_routing,
)

FULL = Routing(
    profiles={
        "area": RoutingProfile(
            mappings=(RoutingMapping("a", "b", patches=(PatchSet({".x": "1"}, "*.json"),)),),
            vars={"line": "7"},
            sync_period=60,
            dry_run=True,
        )
    },
    additional_files=(RoutingFile("f", "."),),
    normalize=NormalizeRules(True, "TopLevel", (FieldRule(".a", "{{.SiteNumber}}"),)),
    site_number="12",
)


def test_a_routing_comes_back_from_its_text() -> None:
    """What the controller writes is what the agent reads."""
    assert routing.decode(routing.encode(FULL)) == FULL
    assert routing.decode(routing.encode(Routing())) == Routing()


def test_field_names_are_those_of_the_resource() -> None:
    """The same word in YAML and in the metadata."""
    assert b'"syncPeriod":60' in routing.encode(FULL)
    assert b'"systemName":true' in routing.encode(FULL)


def test_a_routing_that_cannot_be_published_is_refused() -> None:
    """A ConfigMap has a bound."""
    large = Routing(exclude_patterns=tuple(f"{number:0200d}" for number in range(2000)))
    with pytest.raises(SyncRefused, match="the limit is 262144") as caught:
        routing.encode(large)
    assert caught.value.reason == "ProfilesInvalid"


@pytest.mark.scenario("G36")
def test_only_vars_changed_and_the_hash_is_another() -> None:
    """A gateway counts as synced for one routing only."""
    profiles = dict(FULL.profiles or {})
    profiles["area"] = msgspec.structs.replace(profiles["area"], vars={"line": "8"})
    assert hash_routing(FULL) != hash_routing(msgspec.structs.replace(FULL, profiles=profiles))
    assert hash_routing(FULL) == hash_routing(routing.decode(routing.encode(FULL)))


@pytest.mark.scenario("G36")
def test_an_annotation_or_label_changes_the_profile_hash() -> None:
    """All that a template may use is covered, whatever the order it is listed in."""
    said = {ANNOTATION_PREFIX + "service-path": "a", ANNOTATION_PREFIX + "profile": "p"}
    base = hash_profile("r", said, {"app": "x"})
    assert base == hash_profile("r", dict(reversed(said.items())), {"app": "x"})
    assert base != hash_profile("r2", said, {"app": "x"})
    assert base != hash_profile("r", said | {ANNOTATION_PREFIX + "service-path": "b"}, {"app": "x"})
    assert base != hash_profile("r", said, {"app": "y"})


def test_annotations_that_shape_no_tree_do_not_count() -> None:
    """Injection, permission to delete and other people's annotations change no file."""
    others = ("inject", "injected", "injection-hash", "allow-mass-delete")
    said = {ANNOTATION_PREFIX + name: "x" for name in others} | {"example.com/a": "b"}
    assert hash_profile("r", said, {}) == hash_profile("r", {}, {})
