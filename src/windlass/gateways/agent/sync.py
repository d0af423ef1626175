"""Brings a commit onto a gateway's data volume, and plans beforehand what that would do.

    store -> layout -> changes -> contents, one at a time -> plan -> guards -> apply

A plan that is only shown takes the same way; its contents are hashed and discarded. A `SyncEngine`
knows neither a cluster nor a gateway: agents and the command line use it alike. What blocks runs in
threads; a caller that cancels a call still gets it ended properly.

`LayoutCache`: a gateway's routing rarely changes and a commit changes few files, so the last layout
is kept and updated to the next commit by the difference of their trees. It is a shortcut only:
whatever does not fit, and the first commit of a process, is laid out from the whole listing.

`PhaseTimer` measures the phases of a sync, also of one that failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import structs

from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Retryable
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent.content_builder import ContentBuilder, ContentSink, DiscardingSink
from windlass.gateways.agent.inputs import SyncRequest
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted, cancel_and_wait
from windlass.gateways.render import content_checks, file_renderer
from windlass.gateways.render.file_renderer import RenderRecipe
from windlass.gateways.tree import changes as changing
from windlass.gateways.tree import deletes, layout_update, scan_rules, selection
from windlass.gateways.tree import layout as layouts
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.changes import Changes
from windlass.gateways.tree.deletes import PlanInputs
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.layout import Layout
from windlass.gateways.tree.layout_update import LayoutInputs
from windlass.gateways.tree.live_tree import FileDrift, LiveTree
from windlass.gateways.tree.manifest import ContentFacts, Manifest, ManifestEntry
from windlass.gateways.tree.plan import Plan
from windlass.gateways.tree.scan_rules import ScanKind
from windlass.gateways.tree.selection import GatewaySelection, SourceRevision
from windlass.gateways.volume import inspection
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.inspection import VolumeInspector
from windlass.gateways.volume.transaction import ApplyResult, Transaction
from windlass.git.commit_store import CommitStore
from windlass.git.errors import GitError

SyncPhase = Literal["fetch", "plan", "stage", "apply", "scan"]


class PhaseTimer:
    """Tells `told` the name and the seconds of every part, also of one that failed."""

    def __init__(
        self,
        told: Callable[[SyncPhase, float], None] = lambda *_: None,
        clock: Clock | None = None,
    ) -> None:
        self._observe = told
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def measure(self, phase: SyncPhase) -> Iterator[None]:
        """The block is this phase."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._observe(phase, self._clock.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _CachedLayout:
    commit: str
    basis: LayoutInputs
    layout: Layout


class LayoutCache:
    """Layouts of the commits in one store; reads the disk and belongs in a thread."""

    def __init__(self, store: CommitStore) -> None:
        self._store = store
        self._last: _CachedLayout | None = None

    def get(self, commit: str, selection: GatewaySelection, caps: Caps) -> Layout:
        """The layout of `commit` for the gateway that `selection` speaks of."""
        basis = layout_update.layout_inputs(selection, caps)
        last, self._last = self._last, None
        layout = self._updated_layout(last, commit, basis) if last is not None else None
        del last
        if layout is None:
            layout = layouts.layout_for_selection(self._store.listing(commit), selection, caps)
        self._last = _CachedLayout(commit, basis, layout)
        return layout

    def _updated_layout(
        self, last: _CachedLayout, commit: str, basis: LayoutInputs
    ) -> Layout | None:
        if last.basis != basis or self._store.missing([last.commit]):
            return None
        return layout_update.update_layout(
            last.layout, basis, self._store.diff(last.commit, commit)
        )


@dataclass(frozen=True, slots=True, repr=False)
class PlannedSync:
    """What a sync would do; `manifest` is what it would leave behind.

    Without a repr: it would name every file, and tasks print their results.
    """

    plan: Plan
    manifest: Manifest
    selection: GatewaySelection
    layout: Layout
    changes: Changes
    live_tree: LiveTree
    warnings: tuple[str, ...]
    confirmation_warning: str = ""
    """What waits for a person's word to be deleted; stands among the plan's warnings too."""

    @property
    def added(self) -> int:
        """How many of the written files are new."""
        return sum(op.op == "put" and op.path not in self.live_tree.files for op in self.plan.ops)

    @property
    def scans(self) -> frozenset[ScanKind]:
        return frozenset(ScanKind(kind) for kind in self.plan.scans)


@dataclass(frozen=True, slots=True, repr=False)
class SyncResult:
    """What a sync did."""

    planned: PlannedSync
    applied: ApplyResult


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What an undo did; the gateway has to read `scans` again."""

    applied: ApplyResult
    manifest: Manifest | None
    scans: frozenset[ScanKind]


@dataclass(frozen=True, slots=True)
class _SyncInputs:
    """All that a plan starts from, before any content was read."""

    request: SyncRequest
    tree_id: str
    selection: GatewaySelection
    layout: Layout
    manifest: Manifest | None
    live_tree: LiveTree


class SyncEngine:
    """One data directory and one store."""

    def __init__(
        self, applier: DataVolume, store: CommitStore, phases: PhaseTimer | None = None
    ) -> None:
        self._volume = applier
        self._store = store
        self._timer = phases or PhaseTimer()
        self._layouts = LayoutCache(store)
        self._inspector = VolumeInspector(applier)

    async def plan(self, order: SyncRequest, interrupt: Interrupt | None = None) -> PlannedSync:
        """What a sync would do; nothing in the data directory is written."""
        return await self._plan(order, DiscardingSink(), interrupt or Interrupt())

    async def sync(
        self,
        order: SyncRequest,
        interrupt: Interrupt | None = None,
        *,
        before_commit: Callable[[PlannedSync], None] = lambda _: None,
    ) -> SyncResult:
        """Bring the order about; `before_commit` runs in a thread once all is staged."""
        asked = interrupt or Interrupt()
        transaction = await run_in_thread(self._volume.begin)
        try:
            with asked.on_interrupt(transaction.interrupt):
                planned = await self._plan(order, transaction, asked)
                asked.check()
                plans.check_guards(planned.plan)
                with self._timer.measure("apply"):
                    applied = await run_in_thread(self._commit, transaction, planned, before_commit)
                return SyncResult(planned, applied)
        except Retryable as error:
            if asked.is_set and not transaction.is_committed:
                raise SyncInterrupted from error
            raise
        finally:
            await run_in_thread(transaction.abandon)

    def content(self, planned: PlannedSync, path: str) -> bytes | None:
        """The new content of a planned file; None for one that is not read as a whole."""
        wanted = planned.layout.files[path]
        if self._store.is_large(wanted.blob):
            return None
        recipe, _ = planned.changes.recipe(wanted)
        return file_renderer.render_file(
            self._store.read(wanted.blob), path, recipe or RenderRecipe()
        ).content

    async def rollback(self) -> RollbackResult:
        """Undo the last apply; this can be undone in turn."""
        return await run_in_thread(self._rollback)

    async def find_drift(self, excludes: GlobSet, *, everything: bool = False) -> FileDrift:
        """How the disk differs from what the last sync left."""
        return await run_in_thread(self._find_drift, excludes, everything)

    async def _plan(
        self, order: SyncRequest, sink: ContentSink, interrupt: Interrupt
    ) -> PlannedSync:
        with self._timer.measure("fetch"):
            commit = await self._fetch(order, interrupt)
        with self._timer.measure("plan"):
            ground = await run_in_thread(self._read_inputs, order, commit)
            found = await self._find_changes(ground, interrupt)
        making = ContentBuilder(self._store, ground.layout, sink, order.caps, interrupt)
        with self._timer.measure("stage"):
            await making.build(found)
            found = changing.resolve_undecided(found, ground.layout, making.rendered)
            await making.build(found)
        found = await run_in_thread(self._add_missing_facts, found)
        return await run_in_thread(_build_planned_sync, ground, found, making)

    async def _fetch(self, order: SyncRequest, interrupt: Interrupt) -> str:
        """The commit's id; the time that Git takes is used to look at the disk."""
        looking = asyncio.ensure_future(run_in_thread(self._inspector.prefetch))
        try:
            fetching = self._store.fetch(order.source, order.commit, ref=order.ref)
            commit = await interrupt.run(fetching)
            await looking
            return commit
        finally:
            await cancel_and_wait(looking)

    def _read_inputs(self, order: SyncRequest, commit: str) -> _SyncInputs:
        revision = SourceRevision(commit, order.ref, self._store.committed_at(commit))
        chosen = selection.select(order.routing, order.pod, revision, cr_name=order.cr_name)
        layout = self._layouts.get(commit, chosen, order.caps)
        look = self._inspector.inspect(layout.roots)
        tree = self._store.tree_of(commit)
        return _SyncInputs(order, tree, chosen, layout, look.manifest, look.live_tree)

    async def _find_changes(self, ground: _SyncInputs, interrupt: Interrupt) -> Changes:
        layout, manifest, stats = ground.layout, ground.manifest, ground.live_tree.files
        doubtful = changing.paths_to_hash(layout, manifest, stats)
        hashes = await run_in_thread(self._volume.hash_files, doubtful)
        stamped: frozenset[str] = frozenset()
        altered = _locally_changed(layout, manifest, hashes) if manifest is not None else []
        if manifest is not None and altered:
            sources = _source_blobs(layout, manifest, altered)
            await interrupt.run(self._store.need(sources))
            stamped = await run_in_thread(
                inspection.stamped_files, self._volume, self._store, manifest, altered
            )
        return changing.find_changes(layout, manifest, stats, hashes, stamped)

    def _add_missing_facts(self, found: Changes) -> Changes:
        """`found`, with what an earlier version did not remember of the files that are kept.

        They are read from the disk once, in the first sync after the upgrade.
        """
        silent = [
            (path, entry)
            for path, entry in found.kept.items()
            if entry.about is None and file_renderer.is_resource_file(path)
        ]
        if not silent:
            return found
        completed = {path: self._with_content_facts(path, entry) for path, entry in silent}
        return replace(found, kept={**found.kept, **completed})

    def _with_content_facts(self, path: str, entry: ManifestEntry) -> ManifestEntry:
        content = self._volume.directory.read(path) or b""
        seen = content_checks.content_facts(path, content, ()) or ContentFacts()
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            # The gateway has stamped it; how it was without stamps is not to be had here.
            seen = structs.replace(seen, calm="")
        return structs.replace(entry, about=seen)

    def _commit(
        self,
        transaction: Transaction,
        planned: PlannedSync,
        before_commit: Callable[[PlannedSync], None],
    ) -> ApplyResult:
        before_commit(planned)
        applied = transaction.commit(planned.plan, planned.manifest)
        with contextlib.suppress(GitError):
            # What is wrong with the store shows at the next fetch; the files are in place.
            self._store.keep(planned.plan.to_commit)
        return applied

    def _rollback(self) -> RollbackResult:
        before = self._volume.manifest()
        applied = self._volume.rollback()
        after = self._volume.manifest()
        return RollbackResult(
            applied, after, scan_rules.required_scans(_changed_paths(before, after))
        )

    def _find_drift(self, excludes: GlobSet, everything: bool) -> FileDrift:
        manifest = self._volume.manifest()
        if manifest is None:
            return FileDrift()
        return inspection.inspect_drift(
            self._volume, self._store, manifest, excludes, everything=everything
        )


def _build_planned_sync(ground: _SyncInputs, found: Changes, making: ContentBuilder) -> PlannedSync:
    order, layout = ground.request, ground.layout
    target = order.target(ground.selection.gateway)
    plan = plans.build_plan(
        layout,
        found,
        making.rendered,
        ground.live_tree,
        order.safety,
        manifest=ground.manifest,
        target=target,
        caps=order.caps,
    )
    situation = PlanInputs(layout, ground.manifest, ground.live_tree)
    after = plans.next_manifest(
        layout,
        found,
        making.rendered,
        target=target,
        tree=ground.tree_id,
        adopted=deletes.adoption_record(situation, plan.ops),
    )
    warnings = _tree_warnings(plan, after, ground)
    return PlannedSync(
        plan=plan,
        manifest=after,
        selection=ground.selection,
        layout=layout,
        changes=found,
        live_tree=ground.live_tree,
        warnings=(*ground.selection.warnings, *warnings),
        confirmation_warning=plans.confirmation_warning(situation, order.safety, target),
    )


def _tree_warnings(plan: Plan, after: Manifest, ground: _SyncInputs) -> Iterator[str]:
    """What is doubtful about the tree as it will be, whether this sync changes it or not."""
    known = {path: entry.about for path, entry in after.files.items() if entry.about is not None}
    for path in sorted(path for path, about in known.items() if about.warnings):
        yield from known[path].warnings
    gone = {op.path for op in plan.ops if op.op == "delete"}
    left = (ground.live_tree.files.keys() - gone) | after.files.keys()
    listed = {path: about.lists for path, about in known.items() if about.lists}
    yield from map(str, content_checks.check_tree(left, listed))


def _source_blobs(layout: Layout, manifest: Manifest, altered: Iterable[str]) -> list[str]:
    """The blobs without which nobody can tell whether the gateway only stamped its files."""
    return [
        layout.files[path].blob
        for path in altered
        if file_renderer.is_resource_file(path) and inspection.needs_source(manifest.files[path])
    ]


def _locally_changed(layout: Layout, manifest: Manifest, hashes: dict[str, str]) -> list[str]:
    """Files that differ from what we left although Git did not change them."""
    known = manifest.files
    return [
        path
        for path, sha256 in hashes.items()
        if path in known
        and known[path].sha256 != sha256
        and known[path].blob == layout.files[path].blob
    ]


def _changed_paths(before: Manifest | None, after: Manifest | None) -> list[str]:
    """The paths whose content is not the same in both."""
    old = {path: entry.sha256 for path, entry in before.files.items()} if before else {}
    new = {path: entry.sha256 for path, entry in after.files.items()} if after else {}
    return [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
