"""Informer cache of the reverser's four custom resources, decoded on use.

Read by every reconciler. An object that does not decode counts as absent, except for its own
reconcile, which reports the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from windlass.api.kinds.gitdestination import GitDestination
from windlass.api.kinds.gitrepoconfig import GitRepoConfig
from windlass.api.kinds.watchrules import ClusterWatchRule, WatchRule
from windlass.base.errors import Stalled
from windlass.objects.names import Key
from windlass.runtime.informer import Informer

RuleObject = WatchRule | ClusterWatchRule


class _DestinationRef(Struct, frozen=True):
    """spec.destinationRef of a rule."""

    name: str
    namespace: str = ""


class _RuleSpec(Struct, frozen=True, rename="camel"):
    """The part of spec that names the destination."""

    destination_ref: _DestinationRef


class _RuleMetadata(Struct, frozen=True):
    """The part of metadata that shows whether a rule changed."""

    generation: int


class _PartialRule(Struct, frozen=True):
    """Destination and generation of a rule; decodes also if the rest is invalid."""

    metadata: _RuleMetadata
    spec: _RuleSpec


@dataclass(frozen=True, slots=True)
class RuleReference:
    """A rule and its destination; None if the destination cannot be decoded."""

    kind: str
    key: Key
    generation: int
    destination: Key | None


_PARTIAL_RULE_DECODER = msgspec.json.Decoder(_PartialRule)


@dataclass(frozen=True, slots=True)
class ReverserCache:
    """Informers of the four kinds, and typed access to their objects."""

    repositories: Informer
    destinations: Informer
    watch_rules: Informer
    cluster_watch_rules: Informer

    def informers(self) -> tuple[Informer, ...]:
        """All four informers."""
        return (
            self.repositories,
            self.destinations,
            self.watch_rules,
            self.cluster_watch_rules,
        )

    @property
    def is_synced(self) -> bool:
        """Whether every informer has listed its kind."""
        return all(informer.synced.is_set() for informer in self.informers())

    def repository(self, key: Key) -> GitRepoConfig | None:
        """A GitRepoConfig; None if it is absent or does not decode."""
        raw = self.repositories.get(key)
        try:
            return GitRepoConfig.decode(raw) if raw is not None else None
        except Stalled:
            return None

    def destination(self, key: Key) -> GitDestination | None:
        """A GitDestination; None if it is absent or does not decode."""
        raw = self.destinations.get(key)
        try:
            return GitDestination.decode(raw) if raw is not None else None
        except Stalled:
            return None

    def destinations_for(self, repository: Key) -> Iterator[Key]:
        """The destinations that reference a repository."""
        for key in tuple(self.destinations.keys()):
            destination = self.destination(key)
            if destination is not None and repository_key(destination) == repository:
                yield key

    def rules_for(self, destination: Key) -> Iterator[tuple[str, Key]]:
        """The rules that reference a destination, as kind and key."""
        for kind, key, rule in self._rules():
            if destination_key(rule) == destination:
                yield kind, key

    def rule_references(self) -> Iterator[RuleReference]:
        """Every rule, also those whose spec is invalid."""
        for kind, informer in (
            ("WatchRule", self.watch_rules),
            ("ClusterWatchRule", self.cluster_watch_rules),
        ):
            for key in tuple(informer.keys()):
                raw = informer.get(key)
                if raw is not None:
                    yield RuleReference(kind, key, *_read_partial_rule(raw, key))

    def _rules(self) -> Iterable[tuple[str, Key, RuleObject]]:
        for kind, informer, decode in (
            ("WatchRule", self.watch_rules, WatchRule.decode),
            ("ClusterWatchRule", self.cluster_watch_rules, ClusterWatchRule.decode),
        ):
            for key in tuple(informer.keys()):
                raw = informer.get(key)
                try:
                    if raw is not None:
                        yield kind, key, decode(raw)
                except Stalled:
                    continue


def _read_partial_rule(raw: bytes, key: Key) -> tuple[int, Key | None]:
    try:
        partial = _PARTIAL_RULE_DECODER.decode(raw)
    except msgspec.MsgspecError:
        return 0, None
    ref = partial.spec.destination_ref
    return partial.metadata.generation, Key(ref.namespace or key.namespace, ref.name)


def repository_key(destination: GitDestination) -> Key:
    """The GitRepoConfig that a destination references."""
    ref = destination.spec.repo_ref
    return Key(ref.namespace_from(destination.metadata.namespace), ref.name)


def destination_key(rule: RuleObject) -> Key:
    """The GitDestination that a rule references."""
    ref = rule.spec.destination_ref
    return Key(ref.namespace_from(rule.metadata.namespace), ref.name)
