"""Which routing a pod gets, from what its annotations say."""

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


def _chosen(routing: Routing, pod: GatewayPod) -> GatewaySelection:
    return select(routing, pod, SourceRevision("c1", "main", 5), cr_name="site")


@pytest.mark.scenario("G46")
def test_a_named_profile_wins() -> None:
    """Its mappings alone count, and its dry run, pause and period are handed on."""
    found = _chosen(PROFILES, annotated_pod(profile="area", service_path="s", deployment_mode="m"))
    assert [(one.source, one.destination) for one in found.mappings] == [("t/7", "projects/site")]
    assert (found.profile, found.service_path) == ("area", None)
    assert (found.dry_run, found.paused, found.sync_period_seconds) == (True, True, 90)
    assert found.recipes.variables.service_path == "s"
    assert found.recipes.variables.deployment_mode == "m"


@pytest.mark.parametrize(
    "annotation",
    ["service_path", "deployment_mode", "tag_provider", "system_name", "exclude_patterns"],
)
def test_a_template_where_none_is_rendered_is_refused(annotation: str) -> None:
    """It would become a directory or a name with braces in it."""
    said = {"service_path": "s", annotation: "{{.GatewayName}}"}
    with pytest.raises(SyncRefused, match="must not contain a template"):
        _chosen(Routing(), annotated_pod(**said))


def test_a_template_in_a_variable_is_refused() -> None:
    """What is put into a template is never read as one."""
    profile = RoutingProfile((RoutingMapping("d", "x"),), vars={"line": "{{.Ref}}"})
    with pytest.raises(SyncRefused, match=r"vars\.line: .* must not contain a template"):
        _chosen(Routing(profiles={"default": profile}), annotated_pod())


def test_a_service_path_means_the_convention() -> None:
    """A profile called default does not win over it."""
    found = _chosen(PROFILES, annotated_pod(service_path="s"))
    assert (found.profile, found.service_path) == (None, "s")
    assert [one.source for one in found.mappings] == [
        "s/projects",
        "s/config/resources/core",
        "s/config/resources/external",
        "f",
    ]
    assert (found.dry_run, found.paused, found.sync_period_seconds) == (False, False, 30)


def test_the_default_profile_needs_no_annotation() -> None:
    """A gateway that says nothing gets it."""
    assert _chosen(PROFILES, annotated_pod()).profile == "default"


@pytest.mark.parametrize("said", [{}, {"profile": "nope"}, {"profile": "default"}])
def test_without_routing_the_gateway_is_in_error(said: dict[str, str]) -> None:
    """The message says what to write."""
    with pytest.raises(SyncRefused, match=r"ignition-sync.io/profile") as caught:
        _chosen(Routing(), annotated_pod(**said))
    assert caught.value.reason == "NoRouting"


def test_excludes_add_up() -> None:
    """PRO-2: CR, built-in, profile, pod and tag providers, each once and in this order."""
    pod = annotated_pod(
        profile="area", exclude_patterns=r"a\,b, c/**,,", exclude_tag_providers="MQTT X"
    )
    found = _chosen(replace_excludes(PROFILES, ("z", "c/**")), pod)
    assert found.excludes == (
        "z",
        "c/**",
        "**/.resources/**",
        "**/own",
        "a,b",
        "**/tag-*/MQTT X/",
    )


@pytest.mark.parametrize("said", [{}, {"profile": "area"}])
def test_what_the_operator_protects_is_left_alone(said: dict[str, str]) -> None:
    """PRO-1: excluded on every gateway, and no profile may lead there."""
    guarded = msgspec.structs.replace(PROFILES, protected_paths=("plant/own",))
    assert _chosen(guarded, annotated_pod(**said)).excludes[0] == "plant/own"
    rows = (RoutingMapping("a", "{{.GatewayName}}/own/x"),)
    astray = msgspec.structs.replace(guarded, profiles={"area": RoutingProfile(rows)})
    with pytest.raises(SyncRefused, match="is a protected path"):
        _chosen(astray, annotated_pod(profile="area", gateway_name="plant"))


def replace_excludes(routing: Routing, patterns: tuple[str, ...]) -> Routing:
    """The same routing with other excludes of the CR."""
    return Routing(routing.profiles, routing.additional_files, patterns)


def test_noisy_tag_providers_are_left_out_unless_told_otherwise() -> None:
    """An empty value switches the default list off."""
    assert "**/tag-*/MQTT Engine/" in _chosen(PROFILES, annotated_pod()).excludes
    silent = _chosen(PROFILES, annotated_pod(exclude_tag_providers=""))
    assert not [pattern for pattern in silent.excludes if "tag-" in pattern]


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
def test_annotations_that_would_lead_astray_are_refused(name: str, value: str) -> None:
    """No schema checks annotations, so the code does."""
    with pytest.raises(SyncRefused):
        _chosen(Routing(), annotated_pod(**{"service_path": "s", name: value}))


@pytest.mark.parametrize("period", ["", "4", "3601", "1m", "-5", "1e2"])
def test_a_bad_period_is_said_and_replaced(period: str) -> None:
    """A timer is no reason to stop a gateway."""
    found = _chosen(PROFILES, annotated_pod(sync_period=period))
    assert found.sync_period_seconds == 30
    assert "sync period" in found.warnings[0]


def test_the_system_name_is_a_literal_a_template_or_the_name() -> None:
    """NRM-3, and none at all unless asked for."""
    on = Routing(PROFILES.profiles, normalize=NormalizeRules(True), site_number="9")
    assert _chosen(PROFILES, annotated_pod()).system_name is None
    assert _chosen(on, annotated_pod()).system_name == "site"
    templated = annotated_pod(system_name_template="{{.SiteNumber}}-{{.GatewayName}}")
    assert _chosen(on, templated).system_name == "9-site"
    assert (
        _chosen(on, annotated_pod(system_name="lit", system_name_template="{{")).system_name
        == "lit"
    )
    with pytest.raises(SyncRefused, match="system-name-template") as caught:
        _chosen(on, annotated_pod(system_name_template="{{.Nope}}"))
    assert caught.value.reason == "TemplateError"


def test_fields_are_resolved_for_the_gateway() -> None:
    """A wrong path or template in the CR is named."""
    good = Routing(
        PROFILES.profiles, normalize=NormalizeRules(fields=(FieldRule(".a", "{{.Ref}}"),))
    )
    assert [one.text for one in _chosen(good, annotated_pod()).recipes.fields] == ["main"]
    for rule, reason in (
        (FieldRule("a b[", "x"), "ProfilesInvalid"),
        (FieldRule(".a", "{{"), "TemplateError"),
    ):
        bad = Routing(PROFILES.profiles, normalize=NormalizeRules(fields=(rule,)))
        with pytest.raises(SyncRefused, match=r"normalize\.fields") as caught:
            _chosen(bad, annotated_pod())
        assert caught.value.reason == reason


def test_replicas_get_names_of_their_own() -> None:
    """GDS-4: the first keeps the plain name, so scaling up renames nobody."""
    pods = [
        GatewayPod(
            f"site-{n}", "p", {}, {"app.kubernetes.io/name": "front", STATEFUL_LABEL: f"site-{n}"}
        )
        for n in range(3)
    ]
    assert [gateway_pod.name(pod) for pod in pods] == ["front", "front-1", "front-2"]
    indexed = replace(pods[0], labels={"app.kubernetes.io/name": "front", INDEX_LABEL: "4"})
    assert gateway_pod.name(indexed) == "front-4"


def test_a_pod_without_a_shared_name_keeps_its_own() -> None:
    """A pod of a Deployment has no ordinal even if its name ends in digits."""
    assert gateway_pod.name(GatewayPod("site-1", "p", {}, {STATEFUL_LABEL: "site-1"})) == "site-1"
    odd = GatewayPod("gw-5d8f-12345", "p", {}, {"app.kubernetes.io/name": "gw"})
    assert (gateway_pod.name(odd), gateway_pod.pod_ordinal(odd)) == ("gw", None)
    assert gateway_pod.name(annotated_pod(gateway_name="Line 3")) == "Line 3"
