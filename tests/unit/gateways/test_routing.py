"""The published routing and the hashes that name it."""

from __future__ import annotations

import msgspec
import pytest

from windlass.gateways.decide import routing
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import (
    PREFIX,
    AdditionalFile,
    FieldRule,
    Normalise,
    PatchSet,
    Profile,
    ProfileMapping,
    Routing,
    profile_hash,
    routing_hash,
)

FULL = Routing(
    profiles={
        "area": Profile(
            mappings=(ProfileMapping("a", "b", patches=(PatchSet({".x": "1"}, "*.json"),)),),
            vars={"line": "7"},
            sync_period=60,
            dry_run=True,
        )
    },
    additional_files=(AdditionalFile("f", "."),),
    normalize=Normalise(True, "TopLevel", (FieldRule(".a", "{{.SiteNumber}}"),)),
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
    with pytest.raises(Refused, match="262144 can be published") as caught:
        routing.encode(large)
    assert caught.value.reason == "ProfilesInvalid"


@pytest.mark.scenario("G36")
def test_only_vars_changed_and_the_hash_is_another() -> None:
    """A gateway counts as synced for one routing only."""
    profiles = dict(FULL.profiles or {})
    profiles["area"] = msgspec.structs.replace(profiles["area"], vars={"line": "8"})
    assert routing_hash(FULL) != routing_hash(msgspec.structs.replace(FULL, profiles=profiles))
    assert routing_hash(FULL) == routing_hash(routing.decode(routing.encode(FULL)))


@pytest.mark.scenario("G36")
def test_an_annotation_or_label_changes_the_profile_hash() -> None:
    """All that a template may use is covered, whatever the order it is listed in."""
    said = {PREFIX + "service-path": "a", PREFIX + "profile": "p"}
    base = profile_hash("r", said, {"app": "x"})
    assert base == profile_hash("r", dict(reversed(said.items())), {"app": "x"})
    assert base != profile_hash("r2", said, {"app": "x"})
    assert base != profile_hash("r", said | {PREFIX + "service-path": "b"}, {"app": "x"})
    assert base != profile_hash("r", said, {"app": "y"})


def test_annotations_that_shape_no_tree_do_not_count() -> None:
    """Injection, permission to delete and other people's annotations change no file."""
    others = ("inject", "injected", "injection-hash", "allow-mass-delete")
    said = {PREFIX + name: "x" for name in others} | {"example.com/a": "b"}
    assert profile_hash("r", said, {}) == profile_hash("r", {}, {})
