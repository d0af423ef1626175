"""The published routing and its hashes."""

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


def test_a_routing_survives_encoding() -> None:
    """The agent reads what the controller published."""
    assert routing.decode(routing.encode(FULL)) == FULL
    assert routing.decode(routing.encode(Routing())) == Routing()


def test_field_names_are_those_of_the_resource() -> None:
    """A field has the same name in YAML and in the metadata."""
    assert b'"syncPeriod":60' in routing.encode(FULL)
    assert b'"systemName":true' in routing.encode(FULL)


def test_a_routing_that_is_too_large_is_refused() -> None:
    """It would not fit into a ConfigMap."""
    large = Routing(exclude_patterns=tuple(f"{number:0200d}" for number in range(2000)))
    with pytest.raises(SyncRefused, match="the limit is 262144") as caught:
        routing.encode(large)
    assert caught.value.reason == "ProfilesInvalid"


@pytest.mark.scenario("G36")
def test_changed_vars_change_the_routing_hash() -> None:
    """A gateway is synced for one routing only."""
    profiles = dict(FULL.profiles or {})
    profiles["area"] = msgspec.structs.replace(profiles["area"], vars={"line": "8"})
    assert hash_routing(FULL) != hash_routing(msgspec.structs.replace(FULL, profiles=profiles))
    assert hash_routing(FULL) == hash_routing(routing.decode(routing.encode(FULL)))


@pytest.mark.scenario("G36")
def test_an_annotation_or_label_changes_the_profile_hash() -> None:
    """All that a template may use is covered, in whatever order it is listed."""
    annotations = {ANNOTATION_PREFIX + "service-path": "a", ANNOTATION_PREFIX + "profile": "p"}
    base = hash_profile("r", annotations, {"app": "x"})
    assert base == hash_profile("r", dict(reversed(annotations.items())), {"app": "x"})
    assert base != hash_profile("r2", annotations, {"app": "x"})
    assert base != hash_profile(
        "r", annotations | {ANNOTATION_PREFIX + "service-path": "b"}, {"app": "x"}
    )
    assert base != hash_profile("r", annotations, {"app": "y"})


def test_annotations_that_affect_no_file_do_not_change_the_hash() -> None:
    """Injection, delete allowances and annotations of others."""
    ignored = ("inject", "injected", "injection-hash", "allow-mass-delete")
    annotations = {ANNOTATION_PREFIX + name: "x" for name in ignored} | {"example.com/a": "b"}
    assert hash_profile("r", annotations, {}) == hash_profile("r", {}, {})
