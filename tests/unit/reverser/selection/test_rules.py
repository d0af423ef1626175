"""Which scopes rules select, and the one reason where they select none."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.kube.discovery import ApiTypes, ServedType
from windlass.objects.names import GVR, Key
from windlass.reverser.selection import rules
from windlass.reverser.selection.rules import RuleItem, RuleResolution, SelectionRule, Unresolved

FOLLOWABLE = frozenset({"get", "list", "watch", "create"})
DESTINATION = Key("platform", "prod")


def served(
    name: str,
    kind: str = "",
    *,
    namespaced: bool = True,
    verbs: frozenset[str] = FOLLOWABLE,
    preferred: bool = True,
) -> ServedType:
    """A type from `group/version/resource`, the core group having no group."""
    group, _, rest = name.rpartition("/")[0].rpartition("/")
    resource = name.rpartition("/")[2]
    return ServedType(
        GVR(group, rest, resource), kind or resource.title(), namespaced, verbs, preferred
    )


CLUSTER = (
    served("v1/configmaps"),
    served("v1/pods"),
    served("v1/events"),
    served("v1/namespaces", namespaced=False),
    served("v1/secrets"),
    served("v1/services"),
    served("apps/v1/deployments"),
    served("apps/v1/replicasets"),
    served("batch/v1/cronjobs"),
    served("events.k8s.io/v1/events"),
    served("coordination.k8s.io/v1/leases"),
    served("rbac.authorization.k8s.io/v1/roles"),
    served("rbac.authorization.k8s.io/v1/clusterroles", namespaced=False),
    served("metrics.k8s.io/v1/pods", "PodMetrics", verbs=frozenset({"get", "list"})),
    served("example.com/v1/widgets"),
    served("example.com/v1beta1/widgets", preferred=False),
    served("serving.example.com/v1/services"),
)


def watch_rule(*items: RuleItem) -> SelectionRule:
    """A WatchRule of namespace team-a."""
    return SelectionRule(Key("team-a", "r"), "WatchRule", "team-a", DESTINATION, items)


def cluster_rule(*items: RuleItem) -> SelectionRule:
    """A ClusterWatchRule."""
    return SelectionRule(Key("", "r"), "ClusterWatchRule", "", DESTINATION, items)


def resolve(
    rule: SelectionRule, types: tuple[ServedType, ...] = CLUSTER, **options: Any
) -> RuleResolution:
    """The resolution against the served `types`."""
    api_types = ApiTypes.from_types(
        types, options.pop("failed_groups", ()), options.pop("subresource_only", ())
    )
    settings: dict[str, Any] = {"watch_all": False, "excluded": frozenset(), **options}
    return rules.resolve(rule, api_types, **settings)


def selected(resolution: RuleResolution) -> set[str]:
    """The selected types as text."""
    return {str(one.gvr) for one in resolution.scopes}


def test_plurals_without_group_resolve_to_every_served_group() -> None:
    """RUL-2: an omitted group means every group that has the plural, custom ones included."""
    resolution = resolve(watch_rule(RuleItem(resources=("deployments", "services", "widgets"))))
    assert selected(resolution) == {
        "apps/v1/deployments",
        "v1/services",
        "serving.example.com/v1/services",
        "example.com/v1/widgets",
    }
    assert resolution.unresolved == ()


def test_empty_group_is_core() -> None:
    """RUL-2: the empty string names the core group alone."""
    resolution = resolve(watch_rule(RuleItem(api_groups=("",), resources=("services",))))
    assert selected(resolution) == {"v1/services"}


def test_resources_are_compared_without_letter_case() -> None:
    """2.3: `ConfigMaps` means configmaps."""
    assert selected(resolve(watch_rule(RuleItem(resources=("ConfigMaps",))))) == {"v1/configmaps"}


@pytest.mark.parametrize("versions", [None, (), ("*",)])
def test_omitted_versions_mean_the_preferred_one(versions: tuple[str, ...] | None) -> None:
    """RUL-3: one object, one file."""
    resolution = resolve(watch_rule(RuleItem(resources=("widgets",), api_versions=versions)))
    assert selected(resolution) == {"example.com/v1/widgets"}


def test_listed_versions_are_each_selected() -> None:
    """RUL-3: only an explicit list mirrors several versions."""
    item = RuleItem(resources=("widgets",), api_versions=("v1", "v1beta1", "v9"))
    assert selected(resolve(watch_rule(item))) == {
        "example.com/v1/widgets",
        "example.com/v1beta1/widgets",
    }


def test_plural_outside_the_preferred_version_takes_the_most_stable() -> None:
    """RUL-3: where the group's preferred version lacks the plural, Kubernetes' ranking holds."""
    family = tuple(
        served(f"example.com/{version}/old", preferred=False)
        for version in ("v1alpha1", "v1beta2", "v1beta1", "odd")
    )
    assert rules.preferred_version(family).gvr.version == "v1beta2"


def test_preset_of_a_watch_rule_is_its_namespaced_part() -> None:
    """RUL-5: no pods, events, ReplicaSets or cluster types appear, and nothing is missing."""
    resolution = resolve(watch_rule(RuleItem()))
    assert selected(resolution) == {
        "v1/configmaps",
        "v1/secrets",
        "v1/services",
        "apps/v1/deployments",
        "rbac.authorization.k8s.io/v1/roles",
    }
    assert resolution.unresolved == ()


def test_preset_of_a_cluster_rule_is_the_part_of_its_scope() -> None:
    """RUL-5: an item of scope Cluster takes the cluster-scoped part."""
    resolution = resolve(cluster_rule(RuleItem(scope="Cluster")))
    assert selected(resolution) == {"rbac.authorization.k8s.io/v1/clusterroles"}


def test_groups_filter_the_preset() -> None:
    """RUL-5: apiGroups narrow the preset."""
    assert selected(resolve(watch_rule(RuleItem(api_groups=("apps",))))) == {"apps/v1/deployments"}


def test_star_takes_every_followable_type_but_excluded_ones() -> None:
    """RUL-4, RUL-6: soft, never and unfollowable types stay out of `*`."""
    resolution = resolve(watch_rule(RuleItem(resources=("*",))))
    assert selected(resolution) == {
        "v1/configmaps",
        "v1/secrets",
        "v1/services",
        "apps/v1/deployments",
        "apps/v1/replicasets",
        "rbac.authorization.k8s.io/v1/roles",
        "example.com/v1/widgets",
        "serving.example.com/v1/services",
    }


def test_watch_all_turns_an_omitted_list_into_star() -> None:
    """2.7: --watch-all takes every followable type instead of the preset."""
    everything = resolve(watch_rule(RuleItem(resources=("*",))))
    assert resolve(watch_rule(RuleItem()), watch_all=True) == everything


def test_named_soft_exclusion_is_selected() -> None:
    """RUL-6: naming cronjobs and receiving nothing would be a trap."""
    assert selected(resolve(watch_rule(RuleItem(resources=("*", "cronjobs"))))) >= {
        "batch/v1/cronjobs"
    }


@pytest.mark.parametrize("entry", ["batch/cronjobs", "cronjobs"])
def test_hard_exclusion_wins_over_a_name(entry: str) -> None:
    """RUL-6: the administrator's word wins always."""
    resolution = resolve(watch_rule(RuleItem(resources=("cronjobs",))), excluded=frozenset({entry}))
    assert resolution == RuleResolution((), (Unresolved("cronjobs", "ExcludedByFlag"),))


def test_hard_exclusion_of_core_spares_namesakes() -> None:
    """RUL-6: `core/services` leaves services of other groups alone."""
    resolution = resolve(
        watch_rule(RuleItem(resources=("services",))), excluded=frozenset({"core/services"})
    )
    assert selected(resolution) == {"serving.example.com/v1/services"}


REFUSALS = [
    ("events", "NeverMirrored"),
    ("leases", "NeverMirrored"),
    ("namespaces", "ScopeMismatch"),
    ("nothings", "NotServed"),
    ("pods/log", "SubresourceOnly"),
    ("parents", "SubresourceOnly"),
    ("readings", "MissingVerb"),
    ("twins", "KindNotUnique"),
]


@pytest.mark.parametrize(("entry", "reason"), REFUSALS)
def test_every_refused_entry_has_one_reason(entry: str, reason: str) -> None:
    """DSC-6: an entry that selects nothing says why, once."""
    types = (
        *CLUSTER,
        served("example.com/v1/readings", verbs=frozenset({"list"})),
        served("example.com/v1/twins", "Twin"),
        served("example.com/v1/twinlets", "Twin"),
    )
    resolution = resolve(
        watch_rule(RuleItem(resources=(entry, entry))),
        types,
        subresource_only=[GVR("example.com", "v1", "parents")],
    )
    assert resolution.scopes == ()
    assert [(one.entry, one.reason) for one in resolution.unresolved] == [(entry, reason)]


def test_entry_that_selects_somewhere_is_resolved() -> None:
    """DSC-6: pods of the metrics group do not spoil a rule that gets the core ones."""
    resolution = resolve(watch_rule(RuleItem(resources=("pods",))))
    assert selected(resolution) == {"v1/pods"}
    assert resolution.unresolved == ()


def test_an_unresolved_entry_is_reported_with_its_group() -> None:
    """2.3: the status shows which of several equal plurals was meant."""
    resolution = resolve(watch_rule(RuleItem(api_groups=("batch",), resources=("widgets",))))
    assert resolution.unresolved == (Unresolved("batch/widgets", "NotServed"),)


def test_failed_group_degrades_what_it_may_hide() -> None:
    """DSC-1: entries that reach into the group by name or by `*`; a typo is just not served."""
    rule = watch_rule(RuleItem(resources=("*", "gadgets")))
    resolution = resolve(rule, failed_groups=["broken.io/v1"])
    assert resolution.unresolved == (
        Unresolved("broken.io/*", "DiscoveryDegraded"),
        Unresolved("gadgets", "NotServed"),
    )
    named = RuleItem(api_groups=("example.com", "broken.io"), resources=("gadgets",))
    resolution = resolve(watch_rule(named), failed_groups=["broken.io/v1"])
    assert resolution.unresolved == (Unresolved("broken.io/gadgets", "DiscoveryDegraded"),)


def test_failed_group_outside_the_filter_does_not_matter() -> None:
    """DSC-6: a broken metrics API does not degrade the preset."""
    resolution = resolve(watch_rule(RuleItem()), failed_groups=["metrics.k8s.io/v1beta1"])
    assert resolution.unresolved == ()


def test_failed_core_version_is_the_core_group() -> None:
    """DSC-1: discovery names the core group by its version."""
    resolution = resolve(watch_rule(RuleItem(api_groups=("",))), failed_groups=["v1"])
    assert resolution.unresolved == (Unresolved("core/*", "DiscoveryDegraded"),)


def test_types_of_a_failed_group_stay_selected() -> None:
    """DSC-1: a failed group keeps its last known types."""
    resolution = resolve(
        watch_rule(RuleItem(resources=("widgets",))), failed_groups=["example.com/v1"]
    )
    assert selected(resolution) == {"example.com/v1/widgets"}


def test_a_preset_without_types_is_unresolved() -> None:
    """2.3: a rule without any scope names what is missing."""
    resolution = resolve(watch_rule(RuleItem(api_groups=("nowhere.io",))))
    assert resolution == RuleResolution((), (Unresolved("preset", "NotServed"),))


def test_watch_rule_covers_its_own_namespace() -> None:
    """2.3: the namespace of a WatchRule is in each of its scopes, whatever an item says."""
    resolution = resolve(
        watch_rule(RuleItem(scope="Cluster", resources=("configmaps", "namespaces")))
    )
    assert [(str(one.gvr), one.namespace) for one in resolution.scopes] == [
        ("v1/configmaps", "team-a")
    ]


def test_cluster_rule_covers_all_namespaces() -> None:
    """2.3: scope Namespaced of a ClusterWatchRule means all namespaces."""
    resolution = resolve(cluster_rule(RuleItem(scope="Namespaced", resources=("configmaps",))))
    assert [one.namespace for one in resolution.scopes] == [""]


def test_cluster_rule_without_scope_selects_nothing() -> None:
    """2.3: the schema requires a scope; code that gets none does not guess one."""
    resolution = resolve(cluster_rule(RuleItem(resources=("configmaps",))))
    assert resolution == RuleResolution((), (Unresolved("configmaps", "ScopeMismatch"),))


def test_masks_of_items_are_united() -> None:
    """RUL-7: items are alternatives, so their operations add up."""
    resolution = resolve(
        watch_rule(
            RuleItem(frozenset({"CREATE"}), resources=("configmaps",)),
            RuleItem(frozenset({"DELETE"}), resources=("configmaps",)),
        )
    )
    assert [one.mask for one in resolution.scopes] == [frozenset({"CREATE", "DELETE"})]


@pytest.mark.parametrize("operations", [frozenset(), frozenset({"*"}), frozenset({"*", "CREATE"})])
def test_no_operations_or_star_means_all(operations: frozenset[str]) -> None:
    """2.3: the default of operations is all of them."""
    assert rules.operation_mask(operations) == {"CREATE", "UPDATE", "DELETE"}


def test_owned_objects_keep_a_selection_of_their_own() -> None:
    """SAN-9: the mask of an item without includeOwned never reaches owned objects."""
    resolution = resolve(
        watch_rule(
            RuleItem(frozenset({"CREATE"}), resources=("replicasets",), include_owned=True),
            RuleItem(frozenset({"DELETE"}), resources=("replicasets",)),
        )
    )
    assert [(one.include_owned, one.mask) for one in resolution.scopes] == [
        (False, frozenset({"DELETE"})),
        (True, frozenset({"CREATE"})),
    ]
