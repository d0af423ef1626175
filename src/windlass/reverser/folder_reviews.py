"""Requests reviews of folders that remove files which no rule covers any more (SNP-7).

Level-triggered: after every change, what the rules of a destination cover now is compared
with what they covered when its folder was last reviewed. A difference that lasts makes the
worker review the folder; a short one does not, such as a rule that is replaced, or rules that
are deleted together with their destination.

A rule that disappeared from the cache is confirmed by name before it counts as deleted, and no
rules at all count only if a second list agrees, because an empty list alone proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from windlass.api.kinds import registry
from windlass.base.clock import Clock
from windlass.kube.api import Api
from windlass.kube.discovery import ApiTypes
from windlass.kube.errors import ApiError
from windlass.objects.names import Key
from windlass.reverser.object_cache import ReverserCache, RuleReference
from windlass.reverser.publish.file_update import FolderReview
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.selection.rule_coverage import CompiledRule, RuleCoverage
from windlass.reverser.watch.stream_registry import StreamRegistry

_DEBOUNCE_SECONDS = 0.1
_STABLE_SECONDS = 2.0
"""How long a difference must last before files are removed because of it."""


class FolderReviews:
    """What the rules of each destination cover, and which folders must be reviewed."""

    def __init__(
        self,
        api: Api,
        cache: ReverserCache,
        registry: StreamRegistry,
        catalog: Callable[[], ApiTypes | None],
        clock: Clock,
        *,
        watch_all: bool,
        excluded: frozenset[str],
        grace_seconds: float,
    ) -> None:
        self._api = api
        self._cache = cache
        self._registry = registry
        self._catalog = catalog
        self._clock = clock
        self._watch_all = watch_all
        self._excluded = excluded
        self._grace = timedelta(seconds=grace_seconds)
        # Rules that compiled at their last reconcile, by kind and key.
        self._rules_by_key: dict[tuple[str, Key], CompiledRule] = {}
        # Per destination a coverage that was not reviewed yet, and its monotonic time.
        self._pending_since: dict[Key, tuple[RuleCoverage, float]] = {}
        # Whether this process ever had a rule in its cache.
        self._had_rules = False
        # Set by whatever may change the coverage of a destination.
        self._changed = asyncio.Event()

    # ---- called by the reconcilers

    def set_rule(self, kind: str, key: Key, rule: CompiledRule) -> None:
        """Keep the compiled form of a rule."""
        self._rules_by_key[kind, key] = rule
        self._changed.set()

    def has_rule(self, kind: str, key: Key) -> bool:
        """Whether a rule compiled at its last reconcile."""
        return (kind, key) in self._rules_by_key

    def remove_rule(self, kind: str, key: Key) -> None:
        """Drop a rule that was deleted or is invalid; the cache shows which of both."""
        self._rules_by_key.pop((kind, key), None)
        self._changed.set()

    def catalog_changed(self) -> None:
        """Check every folder again: what is served changed, with or without rules."""
        self._changed.set()

    def folder_changed(self, folder: Folder) -> None:
        """Check a folder again that may have been loaded, or whose last scope was listed."""
        reviewed = folder.reviewed_coverage
        all_scopes_synced = not self._registry.unsynced_scopes(folder.target.key)
        if reviewed is None or reviewed.all_scopes_synced != all_scopes_synced:
            self._changed.set()

    # ---- the loop

    async def run(self, workers: WorkerPool) -> None:
        """Request reviews after changes, and when one has lasted long enough, until cancelled."""
        due: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due):
                    await self._changed.wait()
            await asyncio.sleep(_DEBOUNCE_SECONDS)
            self._changed.clear()
            due = self._request_reviews(workers)

    def _request_reviews(self, workers: WorkerPool) -> float | None:
        """Request the reviews that are due; returns the seconds until the next may be."""
        rules = self._rules()
        pairs = [(worker, pair[1]) for worker in workers for pair in worker.folders()]
        present = {folder.target.key for _, folder in pairs}
        self._pending_since = {
            key: pending for key, pending in self._pending_since.items() if key in present
        }
        delays: list[float] = []
        for worker, folder in pairs:
            coverage = self._coverage(folder, rules)
            if coverage is None or coverage == folder.reviewed_coverage:
                continue
            seconds = self._seconds_until_stable(folder.target.key, coverage)
            if seconds > 0:
                delays.append(seconds)
            else:
                folder.reviewed_coverage = coverage
                worker.add_snapshot(folder, FolderReview())
        ages = (self._grace_seconds_left(folder) for _, folder in pairs)
        return min([*delays, *(seconds for seconds in ages if seconds > 0)], default=None)

    def _seconds_until_stable(self, destination: Key, coverage: RuleCoverage) -> float:
        """How long a coverage must still last; every change starts the time again."""
        now = self._clock.monotonic()
        pending = self._pending_since.get(destination)
        if pending is None or pending[0] != coverage:
            pending = self._pending_since[destination] = (coverage, now)
        return pending[1] + _STABLE_SECONDS - now

    def _grace_seconds_left(self, folder: Folder) -> float:
        """How long a new destination may still wait for its rules."""
        if not folder.target.created:
            return 0.0
        age = self._clock.now() - datetime.fromisoformat(folder.target.created)
        return (self._grace - age).total_seconds()

    # ---- called by the branch workers

    async def current_coverage(self, folder: Folder) -> RuleCoverage | None:
        """The coverage for the review of a folder; None if it changed meanwhile or is in doubt."""
        coverage = self._coverage(folder, self._rules())
        if coverage is None or coverage != folder.reviewed_coverage:
            return None
        if self._had_rules or await self._confirm_no_rules():
            return coverage
        folder.reviewed_coverage = None
        self._pending_since.pop(folder.target.key, None)
        self._changed.set()
        return None

    def _rules(self) -> tuple[RuleReference, ...]:
        """Every rule, also those that the cache lost without a confirmed deletion."""
        listed = tuple(self._cache.rule_references())
        present = {(rule.kind, rule.key) for rule in listed}
        lost = (
            RuleReference(kind, key, known.generation, known.rule.destination)
            for (kind, key), known in self._rules_by_key.items()
            if (kind, key) not in present
        )
        return (*listed, *lost)

    def _coverage(self, folder: Folder, rules: Iterable[RuleReference]) -> RuleCoverage | None:
        """What `rules` cover for a folder; None while caches or the folder are not ready."""
        catalog, destination = self._catalog(), folder.target.key
        if catalog is None or not folder.is_open or not self._cache.is_synced:
            return None
        compiled: list[CompiledRule] = []
        uncompiled_namespaces: set[str] = set()
        has_unknown_rules = False
        for rule in rules:
            self._had_rules = True
            known = self._rules_by_key.get((rule.kind, rule.key))
            if known is not None and known.generation == rule.generation:
                compiled += [known] if rule.destination == destination else []
            # Not compiled in this generation: it may select any object, so it protects files.
            elif self._may_select_for(rule.destination, destination):
                has_unknown_rules |= rule.destination is None or rule.kind == "ClusterWatchRule"
                uncompiled_namespaces.add(rule.key.namespace)
        return RuleCoverage(
            rules=tuple(compiled),
            catalog=catalog,
            uncompiled_namespaces=frozenset(uncompiled_namespaces),
            has_unknown_rules=has_unknown_rules,
            all_scopes_synced=not self._registry.unsynced_scopes(destination),
            grace_expired=self._grace_seconds_left(folder) <= 0,
            watch_all=self._watch_all,
            excluded=self._excluded,
        )

    def _may_select_for(self, named: Key | None, destination: Key) -> bool:
        """Whether an invalid rule may be meant for a destination; a mistyped name may be any."""
        if named is None or named == destination:
            return True
        mistyped = self._cache.destinations.get(named) is None
        return mistyped and named.namespace == destination.namespace

    async def _confirm_no_rules(self) -> bool:
        """Whether a second list confirms that there is no rule at all."""
        try:
            for gvr in (registry.WATCH_RULES, registry.CLUSTER_WATCH_RULES):
                async for page in self._api.pages(gvr, ""):
                    if page.items:
                        return False
        except ApiError:
            return False
        return True
