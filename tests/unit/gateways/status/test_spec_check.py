"""Rules for a spec that the API server cannot check."""

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


def test_a_minimal_spec_has_no_problem() -> None:
    """Nor does one with templates in a destination."""
    assert _problems() == ()
    assert _problems(**_mapping(destination="projects/{{.GatewayName}}/{{.Labels.x}}")) == ()


@pytest.mark.parametrize(
    "destination", ["db", "db/x", "./var//log", "config/local", "a/.resources/b", "x.idb"]
)
def test_protected_destinations_are_refused(destination: str) -> None:
    """V9, with the path of the mapping in the spec."""
    (problem,) = _problems(**_mapping(destination=destination))
    assert problem.startswith("profiles.p.mappings[0].destination")
    (problem,) = _problems(additionalFiles=[{"source": "a", "dest": destination}])
    assert "additionalFiles[0].dest" in problem


@pytest.mark.parametrize("destination", ["plant", "./plant/x"])
def test_the_operator_may_protect_more_paths(destination: str) -> None:
    """PRO-1: configured paths are refused like the constant ones; similar names are not."""

    def problems(**spec: Any) -> tuple[str, ...]:
        return spec_check.find_problems(
            metadata_builder.build_routing(ignition_sync(**spec).spec, "", ("plant/",))
        )

    (problem,) = problems(**_mapping(destination=destination))
    assert problem.startswith("profiles.p.mappings[0].destination")
    (problem,) = problems(additionalFiles=[{"source": "a", "dest": destination}])
    assert "additionalFiles[0]" in problem
    assert problems(**_mapping(destination="plants")) == ()


def test_templates_are_allowed_in_patches_and_additional_files() -> None:
    """A template that some gateway can render is no problem."""
    patch = {"file": "{{.Vars.a}}/*.json", "set": {".x": "{{.GatewayName}}", ".y": '{"a":{}}'}}
    problems = _problems(
        profiles={
            "p": {
                "mappings": [{"source": "a", "destination": "b", "patches": [patch]}],
                "vars": {"a": "1"},
            }
        },
        additionalFiles=[{"source": "{{.SiteNumber}}", "dest": "x/{{.GatewayName}}"}],
    )
    assert problems == ()


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
def test_an_invalid_field_is_named(spec: dict[str, Any], words: str) -> None:
    """By its path in the spec."""
    problems = _problems(**spec)
    assert len(problems) == 1
    assert words in problems[0]


def test_a_routing_that_is_too_large_is_refused() -> None:
    """It would not fit into a ConfigMap."""
    mapping = {
        "source": "a",
        "destination": "b",
        "patches": [{"set": {f".k{n}": "x" * 1000 for n in range(60)}} for _ in range(5)],
    }
    (problem,) = _problems(profiles={"p": {"mappings": [mapping]}})
    assert "bytes" in problem


def test_at_most_five_problems_are_listed() -> None:
    """The others are counted."""
    assert spec_check.join_problems(("a",)) == "a"
    text = spec_check.join_problems(tuple("abcdefg"))
    assert text == "a; b; c; d; e; and 2 more"


@pytest.mark.parametrize(
    "url", ["file:///srv/x.git", "http://example.com/x", "git://example.com/x", "ext::sh"]
)
def test_insecure_and_local_addresses_are_refused(url: str) -> None:
    """InvalidSpec, and a later retry because an administrator may allow the host."""
    with pytest.raises(Stalled) as caught:
        spec_check.check_remote(url, GitSettings())
    assert caught.value.reason == "InvalidSpec"
    assert caught.value.after == 300.0


def test_an_allowed_host_may_be_insecure() -> None:
    """If the administrator lists it."""
    for listed, url in (
        ("example.com", "http://example.com/x"),
        ("example.com:3000", "http://example.com:3000/x"),
    ):
        settings = GitSettings(insecure_hosts=frozenset({listed}))
        assert spec_check.check_remote(url, settings).scheme == "http"


def test_while_paused_the_transport_does_not_matter() -> None:
    """An address that cannot be parsed is still refused."""
    assert spec_check.parse_remote("http://h/x.git").host == "h"
    with pytest.raises(Stalled):
        spec_check.parse_remote("https://user:pass@h/x.git")
