"""Which part of the routing a pod gets, from its annotations."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.gateways.sync_model import annotated_pod
from windlass.gateways.tree import gateway_pod
from windlass.gateways.tree.gateway_pod import INDEX_LABEL, STATEFUL_LABEL, GatewayPod
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.selection import GatewaySelection, SourceRevision, select
from windlass.gateways.wire.routing import (
    FieldRule,
    NormalizeRules,
    Routing,
    RoutingFile,
    RoutingMapping,
    RoutingProfile,
)

PROFILES = Routing(
    profiles={
        "default": RoutingProfile((RoutingMapping("d", "x"),)),
        "area": RoutingProfile(
            (RoutingMapping("t/{{.Vars.line}}", "projects/{{.GatewayName}}"),),
            exclude_patterns=("**/own",),
            vars={"line": "7"},
            sync_period=90,
            dry_run=True,
            paused=True,
        ),
    },
    additional_files=(RoutingFile("f", "g"),),
)


def _select(routing: Routing, pod: GatewayPod) -> GatewaySelection:
    return select(routing, pod, SourceRevision("c1", "main", 5), cr_name="site")


@pytest.mark.scenario("G46")
def test_a_named_profile_is_selected() -> None:
    """Only its mappings apply, with its dry run, pause and sync period."""
    selection = _select(
        PROFILES, annotated_pod(profile="area", service_path="s", deployment_mode="m")
    )
    assert [(mapping.source, mapping.destination) for mapping in selection.mappings] == [
        ("t/7", "projects/site")
    ]
    assert (selection.profile, selection.service_path) == ("area", None)
    assert (selection.dry_run, selection.paused, selection.sync_period_seconds) == (True, True, 90)
    assert selection.recipes.variables.service_path == "s"
    assert selection.recipes.variables.deployment_mode == "m"


@pytest.mark.parametrize(
    "annotation",
    ["service_path", "deployment_mode", "tag_provider", "system_name", "exclude_patterns"],
)
def test_a_template_in_an_annotation_is_refused(annotation: str) -> None:
    """It would become a path or a name with braces in it."""
    annotations = {"service_path": "s", annotation: "{{.GatewayName}}"}
    with pytest.raises(SyncRefused, match="must not contain a template"):
        _select(Routing(), annotated_pod(**annotations))


def test_a_template_in_a_variable_is_refused() -> None:
    """Values of variables are never rendered."""
    profile = RoutingProfile((RoutingMapping("d", "x"),), vars={"line": "{{.Ref}}"})
    with pytest.raises(SyncRefused, match=r"vars\.line: .* must not contain a template"):
        _select(Routing(profiles={"default": profile}), annotated_pod())


def test_a_service_path_selects_the_convention() -> None:
    """It takes precedence over a profile called default."""
    selection = _select(PROFILES, annotated_pod(service_path="s"))
    assert (selection.profile, selection.service_path) == (None, "s")
    assert [mapping.source for mapping in selection.mappings] == [
        "s/projects",
        "s/config/resources/core",
        "s/config/resources/external",
        "f",
    ]
    assert (selection.dry_run, selection.paused, selection.sync_period_seconds) == (
        False,
        False,
        30,
    )


def test_the_default_profile_needs_no_annotation() -> None:
    """A gateway without annotations gets it."""
    assert _select(PROFILES, annotated_pod()).profile == "default"


@pytest.mark.parametrize("annotations", [{}, {"profile": "nope"}, {"profile": "default"}])
def test_a_gateway_without_routing_is_an_error(annotations: dict[str, str]) -> None:
    """The message names the annotation to set."""
    with pytest.raises(SyncRefused, match=r"ignition-sync.io/profile") as caught:
        _select(Routing(), annotated_pod(**annotations))
    assert caught.value.reason == "NoRouting"


def test_excludes_are_combined() -> None:
    """PRO-2: CR, built-in, profile, pod and tag providers, each once and in this order."""
    pod = annotated_pod(
        profile="area", exclude_patterns=r"a\,b, c/**,,", exclude_tag_providers="MQTT X"
    )
    selection = _select(replace_excludes(PROFILES, ("z", "c/**")), pod)
    assert selection.excludes == (
        "z",
        "c/**",
        "**/.resources/**",
        "**/own",
        "a,b",
        "**/tag-*/MQTT X/",
    )


@pytest.mark.parametrize("annotations", [{}, {"profile": "area"}])
def test_paths_that_the_operator_protects_are_excluded(annotations: dict[str, str]) -> None:
    """PRO-1: on every gateway, and no profile may lead there."""
    protected = msgspec.structs.replace(PROFILES, protected_paths=("plant/own",))
    assert _select(protected, annotated_pod(**annotations)).excludes[0] == "plant/own"
    mappings = (RoutingMapping("a", "{{.GatewayName}}/own/x"),)
    mapped_there = msgspec.structs.replace(protected, profiles={"area": RoutingProfile(mappings)})
    with pytest.raises(SyncRefused, match="is a protected path"):
        _select(mapped_there, annotated_pod(profile="area", gateway_name="plant"))


def replace_excludes(routing: Routing, patterns: tuple[str, ...]) -> Routing:
    """The same routing with other excludes of the CR."""
    return Routing(routing.profiles, routing.additional_files, patterns)


def test_noisy_tag_providers_are_excluded_by_default() -> None:
    """An empty value disables the default list."""
    assert "**/tag-*/MQTT Engine/" in _select(PROFILES, annotated_pod()).excludes
    selection = _select(PROFILES, annotated_pod(exclude_tag_providers=""))
    assert not [pattern for pattern in selection.excludes if "tag-" in pattern]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deployment_mode", "core"),
        ("deployment_mode", "a/b"),
        ("tag_provider", ".."),
        ("exclude_tag_providers", "a/b"),
        ("gateway_name", "-x"),
        ("exclude_patterns", "!a"),
        ("service_path", "../x"),
    ],
)
def test_unsafe_annotations_are_refused(name: str, value: str) -> None:
    """No schema validates annotations, so the code does."""
    with pytest.raises(SyncRefused):
        _select(Routing(), annotated_pod(**{"service_path": "s", name: value}))


@pytest.mark.parametrize("period", ["", "4", "3601", "1m", "-5", "1e2"])
def test_an_invalid_sync_period_is_replaced_with_a_warning(period: str) -> None:
    """The default applies; the gateway is still synced."""
    selection = _select(PROFILES, annotated_pod(sync_period=period))
    assert selection.sync_period_seconds == 30
    assert "sync period" in selection.warnings[0]


def test_the_system_name_is_a_literal_a_template_or_the_gateway_name() -> None:
    """NRM-3, and none unless normalize.systemName is true."""
    normalizing = Routing(PROFILES.profiles, normalize=NormalizeRules(True), site_number="9")
    assert _select(PROFILES, annotated_pod()).system_name is None
    assert _select(normalizing, annotated_pod()).system_name == "site"
    templated = annotated_pod(system_name_template="{{.SiteNumber}}-{{.GatewayName}}")
    assert _select(normalizing, templated).system_name == "9-site"
    assert (
        _select(
            normalizing, annotated_pod(system_name="lit", system_name_template="{{")
        ).system_name
        == "lit"
    )
    with pytest.raises(SyncRefused, match="system-name-template") as caught:
        _select(normalizing, annotated_pod(system_name_template="{{.Nope}}"))
    assert caught.value.reason == "TemplateError"


def test_fields_are_rendered_for_the_gateway() -> None:
    """An invalid path or template in the CR is named."""
    good = Routing(
        PROFILES.profiles, normalize=NormalizeRules(fields=(FieldRule(".a", "{{.Ref}}"),))
    )
    assert [field.text for field in _select(good, annotated_pod()).recipes.fields] == ["main"]
    for rule, reason in (
        (FieldRule("a b[", "x"), "ProfilesInvalid"),
        (FieldRule(".a", "{{"), "TemplateError"),
    ):
        bad = Routing(PROFILES.profiles, normalize=NormalizeRules(fields=(rule,)))
        with pytest.raises(SyncRefused, match=r"normalize\.fields") as caught:
            _select(bad, annotated_pod())
        assert caught.value.reason == reason


def test_replicas_get_distinct_names() -> None:
    """GDS-4: the first keeps the shared name, so scaling up renames no gateway."""
    pods = [
        GatewayPod(
            f"site-{n}", "p", {}, {"app.kubernetes.io/name": "front", STATEFUL_LABEL: f"site-{n}"}
        )
        for n in range(3)
    ]
    assert [gateway_pod.name(pod) for pod in pods] == ["front", "front-1", "front-2"]
    indexed = replace(pods[0], labels={"app.kubernetes.io/name": "front", INDEX_LABEL: "4"})
    assert gateway_pod.name(indexed) == "front-4"


def test_a_pod_without_a_shared_name_keeps_its_pod_name() -> None:
    """A pod of a Deployment has no ordinal even if its name ends in digits."""
    assert gateway_pod.name(GatewayPod("site-1", "p", {}, {STATEFUL_LABEL: "site-1"})) == "site-1"
    deployment_pod = GatewayPod("gw-5d8f-12345", "p", {}, {"app.kubernetes.io/name": "gw"})
    assert (gateway_pod.name(deployment_pod), gateway_pod.pod_ordinal(deployment_pod)) == (
        "gw",
        None,
    )
    assert gateway_pod.name(annotated_pod(gateway_name="Line 3")) == "Line 3"
