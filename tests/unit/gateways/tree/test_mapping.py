"""The service-path convention and profiles as one list of mappings."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import mapping
from windlass.gateways.tree.mapping import Convention
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import RoutingFile, RoutingMapping, RoutingProfile


def _pairs(mappings: tuple[mapping.PathMapping, ...]) -> list[tuple[str, str]]:
    return [(row.source, row.destination) for row in mappings]


@pytest.mark.scenario("G21")
def test_the_convention_has_the_order_of_the_table() -> None:
    """MAP-1: projects, core, the mode over core, external, then single files in list order."""
    extra = (RoutingFile("f/a.json", "."), RoutingFile("f/d", "user-lib/d", "dir"))
    mappings = mapping.convention_mappings(
        Convention("services/site/", "prd", additional_files=extra)
    )
    assert _pairs(mappings) == [
        ("services/site/projects", "projects"),
        ("services/site/config/resources/core", "config/resources/core"),
        ("services/site/config/resources/prd", "config/resources/core"),
        ("services/site/config/resources/external", "config/resources/external"),
        ("f/a.json", ""),
        ("f/d", "user-lib/d"),
    ]
    assert mappings[2].omits == {"config-mode.json"}
    assert mappings[4].into_directory


def test_a_native_mode_keeps_its_own_collection() -> None:
    """With the layout native no file of the mode is left out."""
    mappings = mapping.convention_mappings(Convention(".", "prd", "native"))
    assert _pairs(mappings)[2] == ("config/resources/prd", "config/resources/prd")
    assert not mappings[2].omits


def test_a_profile_renders_its_paths() -> None:
    """Source and destination are templates; the result is normalized."""
    spec = RoutingMapping("t/{{x}}/", "./projects//{{x}}", "dir", required=True)
    mappings = mapping.profile_mappings(
        "p", RoutingProfile((spec,)), lambda _, text: text.replace("{{x}}", "area1")
    )
    assert _pairs(mappings) == [("t/area1", "projects/area1")]
    assert (mappings[0].required, mappings[0].origin) == (True, "profiles.p.mappings[0]")


@pytest.mark.parametrize(
    ("source", "destination", "is_omitted"),
    [
        ("modes/prd", "config/resources/core", True),
        ("./modes/prd/", "./config//resources/core/", True),
        ("base/core", "config/resources/core", False),
        ("modes/prd", "config/resources/prd", False),
    ],
)
def test_a_profile_overlay_omits_the_mode_file(
    source: str, destination: str, is_omitted: bool
) -> None:
    """If it maps onto core, and its source is not core itself."""
    profile = RoutingProfile((RoutingMapping(source, destination),))
    (overlay,) = mapping.profile_mappings("p", profile, lambda _, text: text)
    assert bool(overlay.omits) is is_omitted


@pytest.mark.parametrize(
    "destination", ["config/local", "db/x", "../x", "/x", "~/x", "redundancy.xml"]
)
def test_no_mapping_leads_to_a_protected_path(destination: str) -> None:
    """A rendered destination is checked by the same rules as a literal one."""
    profile = RoutingProfile((RoutingMapping("a", "{{x}}"),))
    with pytest.raises(SyncRefused, match=r"mappings\[0\].destination") as caught:
        mapping.profile_mappings("p", profile, lambda _, text: text.replace("{{x}}", destination))
    assert caught.value.reason == "ProfilesInvalid"


def test_a_service_path_stays_in_the_repository() -> None:
    """It comes from an annotation that no schema validates."""
    with pytest.raises(SyncRefused, match="service-path") as caught:
        mapping.convention_mappings(Convention("../other"))
    assert caught.value.reason == "UnsafePath"
