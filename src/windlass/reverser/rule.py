"""Reconciles WatchRule and ClusterWatchRule: resolves the selected scopes and routes them.

`Reverser` runs one `RuleReconciler` per kind. A rule that is broken selects nothing, and the files
that it selected stay.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.api.kinds import registry
from windlass.api.kinds.watchrules import ClusterWatchRule, WatchRule
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.kube.api import Api
from windlass.kube.discovery import ApiTypes
from windlass.objects.names import Identity, Key
from windlass.reverser import status
from windlass.reverser.destination import DestinationReconciler
from windlass.reverser.folder_reviews import FolderReviews
from windlass.reverser.object_cache import (
    ReverserCache,
    RuleObject,
    destination_key,
    read_destination,
)
from windlass.reverser.selection import reference_grants, rules
from windlass.reverser.selection.rule_coverage import CompiledRule
from windlass.reverser.selection.rules import RuleItem, RuleKind, RuleResolution
from windlass.reverser.watch.mirror import Mirror
from windlass.reverser.watch.stream_registry import StreamRegistry
from windlass.runtime.outcome import Outcome

_DESTINATION_RETRY_SECONDS = 30.0
_DELETION_RECHECK_SECONDS = 2.0


class RuleReconciler:
    """Reconciles all rules of one kind against the newest type catalog."""

    def __init__(
        self,
        kind: RuleKind,
        cache: ReverserCache,
        destinations: DestinationReconciler,
        mirror: Mirror,
        registry: StreamRegistry,
        api: Api,
        catalog: Callable[[], ApiTypes | None],
        clock: Clock,
        *,
        watch_all: bool,
        excluded: frozenset[str],
        install_namespace: str,
        cluster_namespaces: frozenset[str],
        reviews: FolderReviews,
        ingests: bool = True,
    ) -> None:
        self._kind = kind
        self._cache = cache
        self._destinations = destinations
        self._mirror = mirror
        self._registry = registry
        self._api = api
        # Returns the newest catalog; None until the first discovery succeeded.
        self._catalog = catalog
        self._clock = clock
        self._watch_all = watch_all
        # `[group/]resource` of --discovery-exclude.
        self._excluded = excluded
        self._install_namespace = install_namespace
        # Beside the install namespace: where a ClusterWatchRule may have its destination.
        self._cluster_namespaces = cluster_namespaces
        # False: rules are checked but select nothing (--enable-watch-ingestion=false).
        self._ingests = ingests
        self._reviews = reviews

    async def reconcile(self, key: Key) -> Outcome:
        """Resolve one rule, pass its selection to the mirror and report it."""
        raw = self._get_raw(key)
        if raw is None:
            return await self._reconcile_deleted(key)
        catalog = self._catalog()
        if catalog is None:
            return status.rule_pending("waiting for API discovery")
        try:
            return self._select(key, raw, catalog)
        finally:
            self._destinations.rule_checked(self._kind, key, read_destination(key, raw))

    def _select(self, key: Key, raw: bytes, catalog: ApiTypes) -> Outcome:
        try:
            rule = self._decode(raw)
            if grace := self._seconds_of_grace(rule):
                text = f"waiting for GitDestination {destination_key(rule)}"
                return status.rule_pending(text, after=grace)
            resolution = self._resolve(rule, catalog)
        except WindlassError:
            self._deselect(key)
            raise
        destination = destination_key(rule)
        if not self._ingests:
            return status.ingestion_disabled()
        compiled = CompiledRule(rule.metadata.generation, self._selection_rule(rule), resolution)
        self._reviews.set_rule(self._kind, key, compiled)
        self._mirror.select(self._kind, key, destination, resolution)
        return status.rule_outcome(
            resolution,
            states=self._registry.states(),
            objects=self._count_files(destination, resolution),
            destination=destination,
            destination_ready=self._destinations.is_ready(destination),
            destination_settled=self._destinations.is_settled(destination),
            failed_groups=catalog.failed_group_names,
        )

    def _count_files(self, destination: Key, resolution: RuleResolution) -> int:
        """How many files of the selected scopes the folder of the destination has."""
        attached = self._mirror.workers.find(destination)
        if attached is None:
            return 0
        _, folder = attached
        return sum(folder.count_files(gvr, namespace) for gvr, namespace in resolution.watched)

    async def _reconcile_deleted(self, key: Key) -> Outcome:
        """Deselect a rule, and so remove its files, once the API server confirms its deletion."""
        gvr = registry.WATCH_RULES if self._kind == "WatchRule" else registry.CLUSTER_WATCH_RULES
        identity = Identity(gvr, key.namespace, key.name)
        # A rule that was never compiled selected nothing, so it needs no proof.
        if self._reviews.has_rule(self._kind, key) and not await self._api.is_deleted(identity):
            return Outcome.postponed(_DELETION_RECHECK_SECONDS)
        self._deselect(key)
        self._destinations.rule_deleted(self._kind, key)
        return Outcome.gone()

    def _deselect(self, key: Key) -> None:
        self._reviews.remove_rule(self._kind, key)
        self._mirror.deselect(self._kind, key)

    def _get_raw(self, key: Key) -> bytes | None:
        return self._cache.rules[self._kind].get(key)

    def _decode(self, raw: bytes) -> RuleObject:
        if self._kind == "ClusterWatchRule":
            return ClusterWatchRule.decode(raw)
        return WatchRule.decode(raw)

    def _resolve(self, rule: RuleObject, catalog: ApiTypes) -> RuleResolution:
        self._check_destination(rule)
        return rules.resolve(
            self._selection_rule(rule),
            catalog,
            watch_all=self._watch_all,
            excluded=self._excluded,
        )

    def _seconds_of_grace(self, rule: RuleObject) -> float:
        return reference_grants.seconds_of_grace(
            self._permission(rule), rule.metadata.creation_timestamp, self._clock.now()
        )

    def _check_destination(self, rule: RuleObject) -> None:
        """Raise Stalled or Waiting unless the rule may use the destination it names."""
        permission = self._permission(rule)
        if permission.allowed:
            return
        assert permission.reason is not None, "a refused permission has a reason"
        if permission.stalled:
            raise Stalled(permission.reason, permission.message)
        raise Waiting(permission.reason, permission.message, after=_DESTINATION_RETRY_SECONDS)

    def _permission(self, rule: RuleObject) -> reference_grants.Permission:
        key = destination_key(rule)
        destination = self._cache.destination(key)
        if isinstance(rule, ClusterWatchRule):
            return reference_grants.check_cluster_destination_ref(
                key,
                exists=destination is not None,
                install_namespace=self._install_namespace,
                allowed_namespaces=self._cluster_namespaces,
            )
        grants = destination.spec.allowed_namespaces if destination is not None else None
        return reference_grants.check_destination_ref(rule.metadata.namespace, key, grants)

    def _selection_rule(self, rule: RuleObject) -> rules.SelectionRule:
        return rules.SelectionRule(
            key=rule.key,
            kind=self._kind,
            namespace=rule.metadata.namespace,
            destination=destination_key(rule),
            items=tuple(_rule_items(rule)),
        )


def _rule_items(rule: RuleObject) -> list[RuleItem]:
    if isinstance(rule, ClusterWatchRule):
        return [
            RuleItem(
                operations=frozenset(item.operations),
                api_groups=item.api_groups,
                api_versions=item.api_versions,
                resources=item.resources,
                include_owned=item.include_owned,
                scope=item.scope,
            )
            for item in rule.spec.rules
        ]
    return [
        RuleItem(
            operations=frozenset(item.operations),
            api_groups=item.api_groups,
            api_versions=item.api_versions,
            resources=item.resources,
            include_owned=item.include_owned,
        )
        for item in rule.spec.rules
    ]
