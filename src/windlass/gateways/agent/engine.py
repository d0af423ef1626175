"""Brings a commit onto a gateway's disk, and says beforehand what that would do.

    store -> layout -> changes -> contents, one at a time -> plan -> guards -> apply

The same way is gone for a plan that is only looked at; its contents are weighed and
dropped. An engine knows neither a cluster nor a gateway: agents and the command line use
it alike. What blocks runs in threads; whoever cancels a call still gets it ended properly.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from windlass.base.errors import Retryable
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent import comparing
from windlass.gateways.agent.apply import Applier
from windlass.gateways.agent.interrupt import GivenUp, Interrupt, ended
from windlass.gateways.agent.laying import Laying
from windlass.gateways.agent.looking import Looking
from windlass.gateways.agent.making import Making, Scales, Sink
from windlass.gateways.agent.order import Order
from windlass.gateways.agent.phases import Phases
from windlass.gateways.agent.transaction import Applied, Transaction
from windlass.gateways.decide import adoption, rendering, scans, selection, successor, validation
from windlass.gateways.decide import changes as changing
from windlass.gateways.decide import plan as plans
from windlass.gateways.decide.changes import Changes
from windlass.gateways.decide.drift import Drift
from windlass.gateways.decide.globs import Globs
from windlass.gateways.decide.layout import Layout
from windlass.gateways.decide.live import Live
from windlass.gateways.decide.manifest import About, Manifest, ManifestEntry
from windlass.gateways.decide.plan import Plan
from windlass.gateways.decide.rendering import Recipe
from windlass.gateways.decide.scans import ScanKind
from windlass.gateways.decide.selection import Revision, Selection
from windlass.gateways.decide.situation import Situation
from windlass.git.commit_store import CommitStore
from windlass.git.errors import GitError


@dataclass(frozen=True, slots=True, repr=False)
class Planned:
    """What a sync would do; `manifest` is what it would leave behind.

    Without a repr: it would name every file, and tasks print their results.
    """

    plan: Plan
    manifest: Manifest
    selection: Selection
    layout: Layout
    changes: Changes
    live: Live
    warnings: tuple[str, ...]
    kept_back: str = ""
    """What waits for a person's word to be deleted; stands among the plan's warnings too."""

    @property
    def added(self) -> int:
        """How many of the written files are new."""
        return sum(op.op == "put" and op.path not in self.live.files for op in self.plan.ops)

    @property
    def scans(self) -> frozenset[ScanKind]:
        return frozenset(ScanKind(kind) for kind in self.plan.scans)


@dataclass(frozen=True, slots=True, repr=False)
class Synced:
    """What a sync did."""

    planned: Planned
    applied: Applied


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What an undo did; the gateway has to read `scans` again."""

    applied: Applied
    manifest: Manifest | None
    scans: frozenset[ScanKind]


@dataclass(frozen=True, slots=True)
class _Ground:
    """All that a plan starts from, before any content was read."""

    order: Order
    tree: str
    selection: Selection
    layout: Layout
    manifest: Manifest | None
    live: Live


class Engine:
    """One data directory and one store."""

    def __init__(self, applier: Applier, store: CommitStore, phases: Phases | None = None) -> None:
        self._applier = applier
        self._store = store
        self._phases = phases or Phases()
        self._laying = Laying(store)
        self._looking = Looking(applier)

    async def plan(self, order: Order, interrupt: Interrupt | None = None) -> Planned:
        """What a sync would do; nothing in the data directory is written."""
        return await self._planned(order, Scales(), interrupt or Interrupt())

    async def sync(
        self,
        order: Order,
        interrupt: Interrupt | None = None,
        *,
        before_commit: Callable[[Planned], None] = lambda _: None,
    ) -> Synced:
        """Bring the order about; `before_commit` runs in a thread once all is staged."""
        asked = interrupt or Interrupt()
        transaction = await run_in_thread(self._applier.begin)
        try:
            with asked.ending(transaction.interrupt):
                planned = await self._planned(order, transaction, asked)
                asked.check()
                plans.check(planned.plan)
                with self._phases.of("apply"):
                    applied = await run_in_thread(self._commit, transaction, planned, before_commit)
                return Synced(planned, applied)
        except Retryable as error:
            if asked.is_set and not transaction.is_committed:
                raise GivenUp from error
            raise
        finally:
            await run_in_thread(transaction.abandon)

    def content(self, planned: Planned, path: str) -> bytes | None:
        """The new content of a planned file; None for one that is not read as a whole."""
        wanted = planned.layout.files[path]
        if self._store.is_large(wanted.blob):
            return None
        recipe, _ = planned.changes.recipe(wanted)
        return rendering.render(self._store.read(wanted.blob), path, recipe or Recipe()).content

    async def rollback(self) -> RolledBack:
        """Undo the last apply; this can be undone in turn."""
        return await run_in_thread(self._rolled_back)

    async def drift(self, excludes: Globs, *, everything: bool = False) -> Drift:
        """How the disk differs from what the last sync left."""
        return await run_in_thread(self._drift, excludes, everything)

    async def _planned(self, order: Order, sink: Sink, interrupt: Interrupt) -> Planned:
        with self._phases.of("fetch"):
            commit = await self._fetched(order, interrupt)
        with self._phases.of("plan"):
            ground = await run_in_thread(self._ground, order, commit)
            found = await self._changes(ground, interrupt)
        making = Making(self._store, ground.layout, sink, order.caps, interrupt)
        with self._phases.of("stage"):
            await making.make(found)
            found = changing.settled(found, ground.layout, making.rendered)
            await making.make(found)
        found = await run_in_thread(self._completed, found)
        return await run_in_thread(_concluded, ground, found, making)

    async def _fetched(self, order: Order, interrupt: Interrupt) -> str:
        """The commit's id; the time that Git takes is used to look at the disk."""
        looking = asyncio.ensure_future(run_in_thread(self._looking.look_ahead))
        try:
            fetching = self._store.fetch(order.source, order.commit, ref=order.ref)
            commit = await interrupt.around(fetching)
            await looking
            return commit
        finally:
            await ended(looking)

    def _ground(self, order: Order, commit: str) -> _Ground:
        revision = Revision(commit, order.ref, self._store.committed_at(commit))
        chosen = selection.selected(order.routing, order.pod, revision, cr_name=order.cr_name)
        layout = self._laying.layout(commit, chosen, order.caps)
        look = self._looking.look(layout.roots)
        tree = self._store.tree_of(commit)
        return _Ground(order, tree, chosen, layout, look.manifest, look.live)

    async def _changes(self, ground: _Ground, interrupt: Interrupt) -> Changes:
        layout, manifest, stats = ground.layout, ground.manifest, ground.live.files
        doubtful = changing.doubtful(layout, manifest, stats)
        hashes = await run_in_thread(self._applier.hashes, doubtful)
        stamped: frozenset[str] = frozenset()
        altered = _altered(layout, manifest, hashes) if manifest is not None else []
        if manifest is not None and altered:
            sources = _sources(layout, manifest, altered)
            await interrupt.around(self._store.need(sources))
            stamped = await run_in_thread(
                comparing.noise, self._applier, self._store, manifest, altered
            )
        return changing.changes(layout, manifest, stats, hashes, stamped)

    def _completed(self, found: Changes) -> Changes:
        """`found`, with what an earlier version did not remember of the files that are kept.

        They are read from the disk once, in the first sync after the upgrade.
        """
        silent = [
            (path, entry)
            for path, entry in found.kept.items()
            if entry.about is None and rendering.is_resource(path)
        ]
        if not silent:
            return found
        completed = {path: self._with_about(path, entry) for path, entry in silent}
        return replace(found, kept={**found.kept, **completed})

    def _with_about(self, path: str, entry: ManifestEntry) -> ManifestEntry:
        content = self._applier.tree.read(path) or b""
        seen = validation.about(path, content, ()) or About()
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            # The gateway has stamped it; how it was without stamps is not to be had here.
            seen = structs.replace(seen, calm="")
        return structs.replace(entry, about=seen)

    def _commit(
        self, transaction: Transaction, planned: Planned, before_commit: Callable[[Planned], None]
    ) -> Applied:
        before_commit(planned)
        applied = transaction.commit(planned.plan, planned.manifest)
        with contextlib.suppress(GitError):
            # What is wrong with the store shows at the next fetch; the files are in place.
            self._store.keep(planned.plan.to_commit)
        return applied

    def _rolled_back(self) -> RolledBack:
        before = self._applier.manifest()
        applied = self._applier.rollback()
        after = self._applier.manifest()
        return RolledBack(applied, after, scans.wanted(_differing(before, after)))

    def _drift(self, excludes: Globs, everything: bool) -> Drift:
        manifest = self._applier.manifest()
        if manifest is None:
            return Drift()
        return comparing.compared(
            self._applier, self._store, manifest, excludes, everything=everything
        )


def _concluded(ground: _Ground, found: Changes, making: Making) -> Planned:
    order, layout = ground.order, ground.layout
    target = order.target(ground.selection.gateway)
    plan = plans.plan(
        layout,
        found,
        making.rendered,
        ground.live,
        order.safety,
        manifest=ground.manifest,
        target=target,
        caps=order.caps,
    )
    situation = Situation(layout, ground.manifest, ground.live)
    after = successor.successor(
        layout,
        found,
        making.rendered,
        target=target,
        tree=ground.tree,
        adopted=adoption.recorded(situation, plan.ops),
    )
    warnings = _tree_warnings(plan, after, ground)
    return Planned(
        plan=plan,
        manifest=after,
        selection=ground.selection,
        layout=layout,
        changes=found,
        live=ground.live,
        warnings=(*ground.selection.warnings, *warnings),
        kept_back=plans.kept_back(situation, order.safety, target),
    )


def _tree_warnings(plan: Plan, after: Manifest, ground: _Ground) -> Iterator[str]:
    """What is doubtful about the tree as it will be, whether this sync changes it or not."""
    known = {path: entry.about for path, entry in after.files.items() if entry.about is not None}
    for path in sorted(path for path, about in known.items() if about.warnings):
        yield from known[path].warnings
    gone = {op.path for op in plan.ops if op.op == "delete"}
    left = (ground.live.files.keys() - gone) | after.files.keys()
    listed = {path: about.lists for path, about in known.items() if about.lists}
    yield from map(str, validation.check_tree(left, listed))


def _sources(layout: Layout, manifest: Manifest, altered: Iterable[str]) -> list[str]:
    """The blobs without which nobody can tell whether the gateway only stamped its files."""
    return [
        layout.files[path].blob
        for path in altered
        if rendering.is_resource(path) and comparing.needs_source(manifest.files[path])
    ]


def _altered(layout: Layout, manifest: Manifest, hashes: dict[str, str]) -> list[str]:
    """Files that differ from what we left although Git did not change them."""
    known = manifest.files
    return [
        path
        for path, sha256 in hashes.items()
        if path in known
        and known[path].sha256 != sha256
        and known[path].blob == layout.files[path].blob
    ]


def _differing(before: Manifest | None, after: Manifest | None) -> list[str]:
    """The paths whose content is not the same in both."""
    old = {path: entry.sha256 for path, entry in before.files.items()} if before else {}
    new = {path: entry.sha256 for path, entry in after.files.items()} if after else {}
    return [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
