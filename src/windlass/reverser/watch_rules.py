"""Reconciles WatchRule and ClusterWatchRule: which scopes, and where they go."""

from __future__ import annotations

from collections.abc import Callable

from windlass.api.kinds import registry
from windlass.api.kinds.watchrules import ClusterWatchRule, WatchRule
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.objects.names import Identity, Key
from windlass.reverser.cache import Cache, Rule, destination_key
from windlass.reverser.decide import references, rule_report, rules
from windlass.reverser.decide.catalogue import Catalogue
from windlass.reverser.decide.rules import Resolution, RuleItem, RuleKind
from windlass.reverser.decide.selected import Compiled
from windlass.reverser.destinations import Destinations
from windlass.reverser.mirror import Mirror
from windlass.reverser.reviews import Reviews
from windlass.runtime.outcome import Outcome

_LOOK_AGAIN_SECONDS = 30.0
_ASK_AGAIN_SECONDS = 2.0


class WatchRules:
    """All rules of one kind, compiled against the newest catalogue."""

    def __init__(
        self,
        kind: RuleKind,
        cache: Cache,
        destinations: Destinations,
        mirror: Mirror,
        catalogue: Callable[[], Catalogue | None],
        *,
        watch_all: bool,
        excluded: frozenset[str],
        install_namespace: str,
        cluster_namespaces: frozenset[str],
        reviews: Reviews,
        ingests: bool = True,
    ) -> None:
        self._kind = kind
        self._cache = cache
        self._destinations = destinations
        self._mirror = mirror
        self._catalogue = catalogue
        self._watch_all = watch_all
        self._excluded = excluded
        self._install_namespace = install_namespace
        self._cluster_namespaces = cluster_namespaces
        self._ingests = ingests
        self._reviews = reviews

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over one rule; a broken rule selects nothing and removes nothing."""
        raw = self._informer_get(key)
        if raw is None:
            return await self._gone(key)
        if self._catalogue() is None:
            return rule_report.settling("the served types are being looked at")
        try:
            rule = self._decoded(raw)
            resolution = self._resolved(rule)
        except WindlassError:
            self._deselect(key)
            raise
        destination = destination_key(rule)
        if not self._ingests:
            return rule_report.disabled()
        known = Compiled(rule.metadata.generation, self._rule(rule), resolution)
        self._reviews.compiled(self._kind, key, known)
        self._mirror.select(self._kind, key, destination, resolution)
        return rule_report.report(
            resolution,
            states=self._mirror.stream_states(),
            objects=sum(
                self._mirror.mirrored(destination, one.gvr, one.namespace)
                for one in resolution.scopes
            ),
            destination=destination,
            destination_ready=self._destinations.is_ready(destination),
            destination_settled=self._destinations.is_settled(destination),
            failed_groups=catalogue.failed if (catalogue := self._catalogue()) else (),
        )

    async def _gone(self, key: Key) -> Outcome:
        """The files of a deleted rule go, so an absence from the cache alone does not delete."""
        gvr = registry.WATCH_RULES if self._kind == "WatchRule" else registry.CLUSTER_WATCH_RULES
        identity = Identity(gvr, key.namespace, key.name)
        if self._reviews.knows(self._kind, key) and not await self._mirror.gone(identity):
            return Outcome.postponed(_ASK_AGAIN_SECONDS)
        self._deselect(key)
        return Outcome.gone()

    def _deselect(self, key: Key) -> None:
        self._reviews.forget(self._kind, key)
        self._mirror.deselect(self._kind, key)

    def _informer_get(self, key: Key) -> bytes | None:
        cluster = self._kind == "ClusterWatchRule"
        informer = self._cache.cluster_watch_rules if cluster else self._cache.watch_rules
        return informer.get(key)

    def _decoded(self, raw: bytes) -> Rule:
        if self._kind == "ClusterWatchRule":
            return ClusterWatchRule.decode(raw)
        return WatchRule.decode(raw)

    def _resolved(self, rule: Rule) -> Resolution:
        self._check_destination(rule)
        catalogue = self._catalogue()
        assert catalogue is not None, "a pass without a catalogue ends before this"
        return rules.resolve(
            self._rule(rule), catalogue, watch_all=self._watch_all, excluded=self._excluded
        )

    def _check_destination(self, rule: Rule) -> None:
        wanted = destination_key(rule)
        found = self._cache.destination(wanted)
        if isinstance(rule, ClusterWatchRule):
            permission = references.cluster_destination(
                wanted,
                exists=found is not None,
                install_namespace=self._install_namespace,
                allowed_namespaces=self._cluster_namespaces,
            )
        else:
            grants = found.spec.allowed_namespaces if found is not None else None
            permission = references.destination(rule.metadata.namespace, wanted, grants)
        if permission.allowed:
            return
        assert permission.reason is not None, "only a refusal stops here"
        if permission.stalled:
            raise Stalled(permission.reason, permission.message)
        raise Waiting(permission.reason, permission.message, after=_LOOK_AGAIN_SECONDS)

    def _rule(self, rule: Rule) -> rules.Rule:
        return rules.Rule(
            key=rule.key,
            kind=self._kind,
            namespace=rule.metadata.namespace,
            destination=destination_key(rule),
            items=tuple(_items(rule)),
        )


def _items(rule: Rule) -> list[RuleItem]:
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
