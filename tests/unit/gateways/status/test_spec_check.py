"""Rules that the API server cannot check."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateways.samples import ignition_sync
from windlass.base.errors import Stalled
from windlass.gateways.status import spec_check
from windlass.gateways.wire import metadata_builder
from windlass.git.settings import GitSettings


def _problems(**spec: Any) -> tuple[str, ...]:
    return spec_check.find_problems(metadata_builder.build_routing(ignition_sync(**spec).spec, ""))


def _mapping(**changes: Any) -> dict[str, Any]:
    return {"profiles": {"p": {"mappings": [{"source": "a", "destination": "b", **changes}]}}}


def test_the_least_spec_has_no_problem() -> None:
    """Nothing to complain about."""
    assert _problems() == ()
    assert _problems(**_mapping(destination="projects/{{.GatewayName}}/{{.Labels.x}}")) == ()


@pytest.mark.parametrize(
    "destination", ["db", "db/x", "./var//log", "config/local", "a/.resources/b", "x.idb"]
)
def test_protected_destinations_are_refused(destination: str) -> None:
    """V9, with the place of the mapping."""
    (problem,) = _problems(**_mapping(destination=destination))
    assert problem.startswith("profiles.p.mappings[0].destination")
    (problem,) = _problems(additionalFiles=[{"source": "a", "dest": destination}])
    assert "additionalFiles[0].dest" in problem


@pytest.mark.parametrize("destination", ["plant", "./plant/x"])
def test_the_operator_may_protect_more(destination: str) -> None:
    """PRO-1: paths of a setting are refused like the constant ones, neighbours are not."""

    def problems(**spec: Any) -> tuple[str, ...]:
        return spec_check.find_problems(
            metadata_builder.build_routing(ignition_sync(**spec).spec, "", ("plant/",))
        )

    (problem,) = problems(**_mapping(destination=destination))
    assert problem.startswith("profiles.p.mappings[0].destination")
    (problem,) = problems(additionalFiles=[{"source": "a", "dest": destination}])
    assert "additionalFiles[0]" in problem
    assert problems(**_mapping(destination="plants")) == ()


def test_templates_may_stand_in_patches_and_additional_files() -> None:
    """What some gateway can render is no problem."""
    patch = {"file": "{{.Vars.a}}/*.json", "set": {".x": "{{.GatewayName}}", ".y": '{"a":{}}'}}
    found = _problems(
        profiles={
            "p": {
                "mappings": [{"source": "a", "destination": "b", "patches": [patch]}],
                "vars": {"a": "1"},
            }
        },
        additionalFiles=[{"source": "{{.SiteNumber}}", "dest": "x/{{.GatewayName}}"}],
    )
    assert found == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (_mapping(patches=[{"set": {".a": "{{.Vars.b}}"}}]), "patches[0].set[.a]"),
        (_mapping(patches=[{"set": {".{{x}}": "1"}}]), "patches[0].set"),
        (_mapping(patches=[{"file": "{{.X}}", "set": {".a": "1"}}]), "patches[0].file"),
        (
            {"additionalFiles": [{"source": "{{.Vars.b}}", "dest": "x"}]},
            "additionalFiles[0].source",
        ),
        ({"additionalFiles": [{"source": "a", "dest": "{{x"}]}, "additionalFiles[0].dest"),
        ({"excludePatterns": ["a/{{.GatewayName}}"]}, "must not contain a template"),
        ({"siteNumber": "{{.Ref}}"}, "siteNumber"),
        (_mapping(source="{{.Nothing}}"), "mappings[0].source"),
        (_mapping(destination="{{.Vars.unknown}}"), "unknown"),
        (_mapping(destination="{{ if }}"), "mappings[0].destination"),
        (_mapping(patches=[{"set": {".a[-].b": "1"}}]), "patches[0].set"),
        (
            {"normalize": {"fields": [{"jsonPath": ".a[-]", "valueTemplate": "x"}]}},
            "normalize.fields[0].jsonPath",
        ),
        (
            {"normalize": {"fields": [{"jsonPath": ".a", "valueTemplate": "{{.X}}"}]}},
            "normalize.fields[0].valueTemplate",
        ),
    ],
)
def test_what_cannot_be_read_is_named(spec: dict[str, Any], words: str) -> None:
    """Where it stands, in words of the manifest."""
    found = _problems(**spec)
    assert len(found) == 1
    assert words in found[0]


def test_too_much_is_refused() -> None:
    """A routing that no ConfigMap should carry."""
    mapping = {
        "source": "a",
        "destination": "b",
        "patches": [{"set": {f".k{n}": "x" * 1000 for n in range(60)}} for _ in range(5)],
    }
    (problem,) = _problems(profiles={"p": {"mappings": [mapping]}})
    assert "bytes" in problem


def test_five_problems_are_shown() -> None:
    """The rest is counted."""
    assert spec_check.join_problems(("a",)) == "a"
    text = spec_check.join_problems(tuple("abcdefg"))
    assert text == "a; b; c; d; e; and 2 more"


@pytest.mark.parametrize(
    "url", ["file:///srv/x.git", "http://example.com/x", "git://example.com/x", "ext::sh"]
)
def test_addresses_that_must_not_be_used(url: str) -> None:
    """InvalidSpec, and a later look because an administrator may allow the host."""
    with pytest.raises(Stalled) as caught:
        spec_check.check_remote(url, GitSettings())
    assert caught.value.reason == "InvalidSpec"
    assert caught.value.after == 300.0


def test_a_listed_host_may_be_insecure() -> None:
    """The administrator's word counts."""
    for listed, url in (
        ("example.com", "http://example.com/x"),
        ("example.com:3000", "http://example.com:3000/x"),
    ):
        allowed = GitSettings(insecure_hosts=frozenset({listed}))
        assert spec_check.check_remote(url, allowed).scheme == "http"


def test_while_nobody_is_asked_the_way_does_not_matter() -> None:
    """A pause is told whatever the transport; an address nobody understands is not."""
    assert spec_check.parse_remote("http://h/x.git").host == "h"
    with pytest.raises(Stalled):
        spec_check.parse_remote("https://user:pass@h/x.git")
