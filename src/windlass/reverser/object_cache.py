"""Informer cache of the reverser's four custom resources, decoded on use.

Read by every reconciler. An object that does not decode counts as absent, except for its own
reconcile, which reports the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from windlass.api.kinds.gitdestination import GitDestination
from windlass.api.kinds.gitrepoconfig import GitRepoConfig
from windlass.api.kinds.watchrules import ClusterWatchRule, WatchRule
from windlass.base.errors import Stalled
from windlass.objects.names import Key
from windlass.reverser.selection.rules import RuleKind
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


class ReverserCache:
    """Informers of the four kinds, and typed access to their objects."""

    def __init__(
        self,
        repositories: Informer,
        destinations: Informer,
        watch_rules: Informer,
        cluster_watch_rules: Informer,
    ) -> None:
        self.repositories = repositories
        self.destinations = destinations
        self.rules: dict[RuleKind, Informer] = {
            "WatchRule": watch_rules,
            "ClusterWatchRule": cluster_watch_rules,
        }
        self._destinations_by_repository = destinations.add_index(_read_repository)
        self._rules_by_destination = {
            kind: informer.add_index(read_destination) for kind, informer in self.rules.items()
        }

    def informers(self) -> tuple[Informer, ...]:
        """All four informers."""
        return self.repositories, self.destinations, *self.rules.values()

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

    def destinations_for(self, repository: Key) -> tuple[Key, ...]:
        """The destinations that reference a repository."""
        return self._destinations_by_repository.keys_of(repository)

    def rules_for(self, destination: Key) -> Iterator[tuple[str, Key]]:
        """The rules that reference a destination, as kind and key, valid or not."""
        for kind, index in self._rules_by_destination.items():
            for key in index.keys_of(destination):
                yield kind, key

    def rule_references(self) -> Iterator[RuleReference]:
        """Every rule, also those whose spec is invalid."""
        for kind, informer in self.rules.items():
            for key in informer.keys():  # noqa: SIM118 - it is no mapping
                raw = informer.get(key)
                if raw is not None:
                    yield RuleReference(kind, key, *_read_partial_rule(raw, key))


def _read_partial_rule(raw: bytes, key: Key) -> tuple[int, Key | None]:
    try:
        partial = _PARTIAL_RULE_DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0, None
    ref = partial.spec.destination_ref
    return partial.metadata.generation, Key(ref.namespace or key.namespace, ref.name)


def read_destination(key: Key, raw: bytes) -> Key | None:
    """The GitDestination that a rule references; None if that cannot be decoded."""
    return _read_partial_rule(raw, key)[1]


def _read_repository(key: Key, raw: bytes) -> Key | None:
    """The GitRepoConfig that a destination references; None if the destination is invalid."""
    del key
    try:
        return repository_key(GitDestination.decode(raw))
    except Stalled:
        return None


def repository_key(destination: GitDestination) -> Key:
    """The GitRepoConfig that a destination references."""
    ref = destination.spec.repo_ref
    return Key(ref.namespace_from(destination.metadata.namespace), ref.name)


def destination_key(rule: RuleObject) -> Key:
    """The GitDestination that a rule references."""
    ref = rule.spec.destination_ref
    return Key(ref.namespace_from(rule.metadata.namespace), ref.name)
