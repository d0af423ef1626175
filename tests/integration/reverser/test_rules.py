"""Rules on a real operator: what they select, how they combine, and what they do not affect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import custom_resource
from tests.support.cluster.custom_resource import CustomResource
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser import sample_objects
from tests.support.reverser.api_users import admin_user, wait_for_streams
from tests.support.reverser.central_repository import configure_mirror
from tests.support.reverser.mirrored_namespace import MirroredNamespace

pytestmark = pytest.mark.cluster


@pytest.fixture
def gadgets(mirrored: MirroredNamespace) -> Iterator[CustomResource]:
    """A custom resource with two versions."""
    wanted = CustomResource(custom_resource.unique_group(), versions=("v1", "v1alpha1"))
    with custom_resource.installed_resource(admin_user(mirrored), wanted) as found:
        yield found


def _rename_rule(
    rule: dict[str, Any], name: str, destination: str = "destination"
) -> dict[str, Any]:
    rule["metadata"]["name"] = name
    rule["spec"]["destinationRef"]["name"] = destination
    return rule


def _resolved(mirrored: MirroredNamespace) -> set[str]:
    rows = mirrored.admin.get("watchrule", "rule")["status"].get("resolved", [])
    return {row["gvr"] for row in rows}


@pytest.mark.scenario("A18")
def test_plurals_without_groups_find_their_group(mirrored: MirroredNamespace) -> None:
    """Each plural resolves to the group that serves it."""
    mirrored.configured({"resources": ["deployments", "Services", "configmaps", "ingresses"]})
    assert _resolved(mirrored) == {
        "apps/v1/deployments",
        "v1/services",
        "v1/configmaps",
        "networking.k8s.io/v1/ingresses",
    }
    condition = mirrored.condition("watchrule", "rule", "ResourcesResolved")
    assert (condition["status"], condition["reason"]) == ("True", "AllResolved")


@pytest.mark.scenario("A19")
def test_a_custom_resource_is_mirrored_at_its_preferred_version(
    mirrored: MirroredNamespace, gadgets: CustomResource
) -> None:
    """The plural is enough; a list of versions makes a file of each (RUL-3)."""
    namespace = mirrored.namespace
    mirrored.admin.apply(gadgets.new_object(namespace, "one", spec={"size": 1}))
    mirrored.configured({"resources": ["widgets"]})
    preferred = {gadgets.file(namespace, "one")}
    # The API server names one version after the other, and the first may be the other one.
    eventually(lambda: mirrored.files().keys() == preferred, "a file of the preferred version")
    mirrored.admin.apply(
        mirrored.watch_rule({"resources": ["widgets"], "apiVersions": ["v1", "v1alpha1"]})
    )
    both = {gadgets.file(namespace, "one", version) for version in ("v1", "v1alpha1")}
    eventually(lambda: mirrored.files().keys() == both, "a file of each version")
    text = mirrored.file(gadgets.file(namespace, "one", "v1alpha1"))
    assert text.startswith(f"apiVersion: {gadgets.group}/v1alpha1\n")


@pytest.mark.scenario("A20")
def test_an_empty_entry_means_the_preset(mirrored: MirroredNamespace) -> None:
    """Exactly the usual namespaced types; no pods, no leases, no ReplicaSets."""
    namespace = mirrored.namespace
    _apply_samples(mirrored, {**sample_objects.PRESET, **sample_objects.OTHERS})
    eventually(lambda: _replica_sets(mirrored), "the Deployment's ReplicaSet")
    mirrored.configured({})
    expected = {f"{type_path}/{namespace}/web.yaml" for type_path in sample_objects.PRESET}
    expected.add(f"v1/secrets/{namespace}/git-credentials.yaml")
    eventually(lambda: mirrored.files().keys() >= expected, "every usual object")
    assert set(mirrored.files()) == expected
    assert _resolved(mirrored) == sample_objects.PRESET.keys()


def _apply_samples(mirrored: MirroredNamespace, types: dict[str, dict[str, Any]]) -> None:
    """Apply an object of each type.

    A pod is refused until its namespace has a default account and its quota was counted.
    """
    admin = admin_user(mirrored)
    for document in sample_objects.documents(types, mirrored.namespace):
        eventually(lambda document=document: admin.send(document).ok, f"{document['kind']} applied")


def _replica_sets(mirrored: MirroredNamespace) -> list[Any]:
    admin = admin_user(mirrored)
    items: list[Any] = admin.request("GET", admin.path("replicasets")).object["items"]
    return items


@pytest.mark.scenario("A21")
def test_star_leaves_out_soft_exclusions_until_they_are_named(
    mirrored: MirroredNamespace, gadgets: CustomResource
) -> None:
    """`*` selects core types and custom resources; a named plural selects CronJobs."""
    namespace = mirrored.namespace
    _apply_samples(mirrored, sample_objects.OTHERS)
    mirrored.admin.apply(
        mirrored.config_map("one", a="1"),
        gadgets.new_object(namespace, "one", spec={"size": 1}),
    )
    mirrored.configured({"resources": ["*"]})
    core = {f"v1/configmaps/{namespace}/one.yaml", gadgets.file(namespace, "one")}
    eventually(lambda: core <= mirrored.files().keys(), "core types and custom resources")
    folders = {path.split(f"/{namespace}/")[0] for path in mirrored.files()}
    assert not folders & sample_objects.OTHERS.keys()
    mirrored.admin.apply(mirrored.watch_rule({"resources": ["cronjobs", "leases"]}))
    cron = f"batch/v1/cronjobs/{namespace}/web.yaml"
    eventually(lambda: cron in mirrored.files(), "the CronJob")
    never = [{"entry": "leases", "reason": "NeverMirrored"}]
    # The streams of the changed rule start before its status is written.
    eventually(
        lambda: mirrored.admin.get("watchrule", "rule")["status"].get("unresolved") == never,
        "the entry that is never mirrored",
    )


@pytest.mark.scenario("A23")
def test_two_rules_for_one_object_make_one_commit(mirrored: MirroredNamespace) -> None:
    """One file, one commit, however many rules hit it."""
    mirrored.configured({"resources": ["configmaps"]})
    more = mirrored.watch_rule({"resources": ["configmaps", "services"]})
    mirrored.admin.apply(_rename_rule(more, "more"))
    mirrored.await_condition("watchrule", "more", "Ready")
    wait_for_streams(mirrored)
    wait_for_streams(mirrored, "more")
    alice = mirrored.user("alice")
    alice.apply(mirrored.config_map("one", a="1"))
    mirrored.await_change("[CREATE] v1/configmaps/one")
    alice.apply(mirrored.config_map("marker", a="1"))
    mirrored.await_change("[CREATE] v1/configmaps/marker")
    assert sum("/one " in subject for subject in mirrored.subjects()) == 1
    assert len(mirrored.files()) == 2


@pytest.mark.scenario("A24")
def test_a_namespace_rule_and_a_cluster_rule_do_not_hide_each_other(
    mirrored: MirroredNamespace, platform: MirroredNamespace
) -> None:
    """Both destinations are complete, before and after the cluster rule came."""
    path = f"v1/configmaps/{mirrored.namespace}"
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    configure_mirror(platform, {"scope": "Namespaced", "resources": ["configmaps"]})
    eventually(
        lambda: f"{path}/one.yaml" in platform.files(), "the object in the second repository"
    )
    mirrored.admin.apply(mirrored.config_map("two", b="2"))
    for destination in (mirrored, platform):
        eventually(
            lambda destination=destination: f"{path}/two.yaml" in destination.files(),
            "the new object",
        )
    assert set(mirrored.files()) == {f"{path}/one.yaml", f"{path}/two.yaml"}
    admin_user(mirrored).delete("configmap", "one")
    for destination in (mirrored, platform):
        eventually(
            lambda destination=destination: f"{path}/one.yaml" not in destination.files(),
            "the removal",
        )


@pytest.mark.scenario("A25")
def test_a_new_definition_is_followed_at_once(mirrored: MirroredNamespace) -> None:
    """An instance is in Git seconds after its type is served, under a `*` rule."""
    mirrored.configured({"resources": ["*"]})
    wanted = CustomResource(custom_resource.unique_group())
    with custom_resource.installed_resource(admin_user(mirrored), wanted):
        mirrored.admin.apply(wanted.new_object(mirrored.namespace, "one", spec={"size": 1}))
        path = wanted.file(mirrored.namespace, "one")
        eventually(lambda: path in mirrored.files(), "the instance")


def test_a_typo_is_not_the_fault_of_a_broken_api(mirrored: MirroredNamespace) -> None:
    """A misspelled plural is NotServed; only types of the failing group are DiscoveryDegraded."""
    person, group = admin_user(mirrored), custom_resource.unique_group()
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "nobody", "namespace": mirrored.namespace},
        },
    }
    person.apply(service)
    try:
        mirrored.configured({"resources": ["configmaps", "configmapz"]})
        condition = eventually(
            lambda: _failing_group_condition(mirrored, group), "the failing group named"
        )
        assert condition["reason"] == "PartlyResolved"
        assert "configmapz (NotServed)" in condition["message"]
        unresolved = mirrored.admin.get("watchrule", "rule")["status"]["unresolved"]
        assert unresolved == [{"entry": "configmapz", "reason": "NotServed"}]
        mirrored.admin.apply(mirrored.watch_rule({"apiGroups": [group], "resources": ["things"]}))
        mirrored.await_condition(
            "watchrule", "rule", "DiscoveryDegraded", type_="ResourcesResolved"
        )
        condition = _failing_group_condition(mirrored, group)
        assert f"{group}/things (DiscoveryDegraded)" in condition["message"]
    finally:
        person.request("DELETE", person.path("apiservice", f"v1.{group}"))


def _failing_group_condition(mirrored: MirroredNamespace, group: str) -> dict[str, Any]:
    condition = mirrored.condition("watchrule", "rule", "ResourcesResolved")
    return (
        condition
        if f"API group {group} cannot be discovered" in condition.get("message", "")
        else {}
    )


@pytest.mark.scenario("A29")
def test_an_unrelated_rule_restarts_nothing(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """No stream restarts, and none takes a second snapshot."""
    mirrored.configured({"resources": ["configmaps"]})
    wait_for_streams(mirrored)
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    eventually(mirrored.files, "the first file")
    scope = f"v1/configmaps in {mirrored.namespace}"
    restarts = operator.metric("windlass_mirror_watch_restarts_total")
    lines = _stream_log(operator, scope)
    assert lines
    mirrored.admin.apply(
        _rename_rule(mirrored.watch_rule({"resources": ["services"]}), "unrelated")
    )
    mirrored.await_condition("watchrule", "unrelated", "Ready")
    other = f"v1/services in {mirrored.namespace}"
    eventually(
        lambda: any("synced" in line for line in _stream_log(operator, other)), "the new stream"
    )
    mirrored.admin.apply(mirrored.config_map("two", a="1"))
    eventually(lambda: len(mirrored.files()) == 2, "the second file")
    assert _stream_log(operator, scope) == lines
    assert operator.metric("windlass_mirror_watch_restarts_total") == restarts


def test_a_type_that_two_items_select_counts_once(mirrored: MirroredNamespace) -> None:
    """Items with and without includeOwned share one watch and the same files."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured(
        {"resources": ["configmaps"]}, {"resources": ["configmaps"], "includeOwned": True}
    )
    eventually(mirrored.files, "the file")

    def counted() -> dict[str, Any]:
        found: dict[str, Any] = mirrored.admin.get("watchrule", "rule")["status"]
        return found if found.get("objects") else {}

    status = eventually(counted, "objects counted")
    assert status["objects"] == 1
    assert [row["gvr"] for row in status["resolved"]] == ["v1/configmaps"]
    assert mirrored.condition("watchrule", "rule")["message"] == "1 resource type selected"


def _stream_log(operator: Operator, scope: str) -> list[str]:
    """The log lines of one stream: every change of its state is a line."""
    return [line for line in operator.log.read_text().splitlines() if f'"{scope}"' in line]
