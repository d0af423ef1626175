"""Brings a commit onto a gateway's data volume, and plans beforehand what that would do.

    store -> layout -> changes -> contents, one at a time -> plan -> guards -> apply

A dry run takes the same path; its contents are hashed and discarded. A `SyncEngine` knows neither a
cluster nor a gateway: agents and the command line use it alike. Blocking calls run in threads; a
cancelled call still cleans up before it returns.

`LayoutCache`: a gateway's routing rarely changes and a commit changes few files, so the last layout
is kept and updated to the next commit by the difference of their trees. It is only a shortcut:
the first commit of a process, and any that cannot be updated to, get a layout of the whole tree.

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
from windlass.gateways.tree import changes as tree_changes
from windlass.gateways.tree import deletes, layout_update, scan_rules, selection
from windlass.gateways.tree import layout as layouts
from windlass.gateways.tree import manifest as manifests
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

# That a manifest lists, and so an audit record.
_MAX_WARNINGS = 20

SyncPhase = Literal["fetch", "plan", "stage", "apply", "scan"]


class PhaseTimer:
    """Calls `observe` with name and seconds of every phase, also of one that failed."""

    def __init__(
        self,
        observe: Callable[[SyncPhase, float], None] = lambda *_: None,
        clock: Clock | None = None,
    ) -> None:
        self._observe = observe
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def measure(self, phase: SyncPhase) -> Iterator[None]:
        """Measure the block as `phase`."""
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._observe(phase, self._clock.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _CachedLayout:
    """A layout with what it was computed from."""

    commit: str
    inputs: LayoutInputs
    layout: Layout


class LayoutCache:
    """The layout of the last commit in one store; reads the disk, so call it in a thread."""

    def __init__(self, store: CommitStore) -> None:
        self._store = store
        # None before the first layout, and while one is updated: a failure leaves none behind.
        self._last: _CachedLayout | None = None

    def get(self, commit: str, selection: GatewaySelection, caps: Caps) -> Layout:
        """The layout of `commit` for the gateway of `selection`."""
        inputs = layout_update.layout_inputs(selection, caps)
        last, self._last = self._last, None
        layout = self._updated_layout(last, commit, inputs) if last is not None else None
        # The old layout may be large; free it before a new one is built.
        del last
        if layout is None:
            layout = layouts.layout_for_selection(self._store.listing(commit), selection, caps)
        self._last = _CachedLayout(commit, inputs, layout)
        return layout

    def _updated_layout(
        self, last: _CachedLayout, commit: str, inputs: LayoutInputs
    ) -> Layout | None:
        if last.inputs != inputs or self._store.missing([last.commit]):
            return None
        return layout_update.update_layout(
            last.layout, inputs, self._store.diff(last.commit, commit)
        )


@dataclass(frozen=True, slots=True, repr=False)
class PlannedSync:
    """A complete plan of a sync and everything it was made from.

    Without a repr: it would name every file, and tasks print their results.
    """

    plan: Plan
    # The manifest that the sync leaves behind.
    manifest: Manifest
    # What the gateway gets: routing profile, mappings, excludes, variables.
    selection: GatewaySelection
    # Desired files of the commit.
    layout: Layout
    # Difference between layout and disk.
    changes: Changes
    # The managed directories as they were when the plan was made.
    live_tree: LiveTree
    # Warnings of the selection and of the resulting tree; those of the plan are in `plan`.
    warnings: tuple[str, ...]
    # Adopted files that are kept until their deletion is approved; `plan.warnings` counts them.
    unconfirmed: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """How many of the written files are new."""
        return sum(op.op == "put" and op.path not in self.live_tree.files for op in self.plan.ops)


@dataclass(frozen=True, slots=True, repr=False)
class SyncResult:
    """What a sync planned and applied."""

    planned: PlannedSync
    applied: ApplyResult


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What a rollback did; the gateway has to run `scans`; `manifest` is the restored one."""

    applied: ApplyResult
    manifest: Manifest | None
    scans: frozenset[ScanKind]


@dataclass(frozen=True, slots=True)
class _SyncInputs:
    """Everything a plan starts from, before any content was read."""

    request: SyncRequest  # commit, routing and limits
    # Git object id of the commit's tree.
    tree_id: str
    selection: GatewaySelection  # what the gateway gets
    plan: PlanInputs  # desired files, those of the last sync, those on the disk


class SyncEngine:
    """Plans and applies commits of one store to one data volume."""

    def __init__(
        self, volume: DataVolume, store: CommitStore, timer: PhaseTimer | None = None
    ) -> None:
        self._volume = volume
        self._store = store
        self._timer = timer or PhaseTimer()
        self._layouts = LayoutCache(store)
        self._inspector = VolumeInspector(volume)

    async def plan(self, request: SyncRequest, interrupt: Interrupt | None = None) -> PlannedSync:
        """The plan of a sync; nothing in the data directory is written."""
        return await self._plan(request, DiscardingSink(), interrupt or Interrupt())

    async def sync(
        self,
        request: SyncRequest,
        interrupt: Interrupt | None = None,
        *,
        before_commit: Callable[[PlannedSync], None] = lambda _: None,
    ) -> SyncResult:
        """Apply the request; `before_commit` runs in a thread once everything is staged."""
        interrupt = interrupt or Interrupt()
        transaction = await run_in_thread(self._volume.begin)
        try:
            with interrupt.on_interrupt(transaction.interrupt):
                planned = await self._plan(request, transaction, interrupt)
                interrupt.check()
                plans.check_guards(planned.plan)
                with self._timer.measure("apply"):
                    applied = await run_in_thread(self._commit, transaction, planned, before_commit)
                return SyncResult(planned, applied)
        except Retryable as error:
            # An interrupted transaction fails with an error of its own; name the real cause.
            if interrupt.is_set and not transaction.is_committed:
                raise SyncInterrupted from error
            raise
        finally:
            await run_in_thread(transaction.abandon)

    def content(self, planned: PlannedSync, path: str) -> bytes | None:
        """The new content of a planned file; None for one that is not read as a whole."""
        file = planned.layout.files[path]
        if self._store.is_large(file.blob):
            return None
        recipe, _ = planned.changes.recipe(file)
        return file_renderer.render_file(
            self._store.read(file.blob), path, recipe or RenderRecipe()
        ).content

    async def rollback(self) -> RollbackResult:
        """Undo the last apply; this can be undone in turn."""
        return await run_in_thread(self._rollback)

    async def find_drift(
        self, excludes: GlobSet, *, everything: bool = False, api_token: str = ""
    ) -> FileDrift:
        """How the disk differs from what the last sync left."""
        return await run_in_thread(self._find_drift, excludes, everything, api_token)

    async def _plan(
        self, request: SyncRequest, sink: ContentSink, interrupt: Interrupt
    ) -> PlannedSync:
        with self._timer.measure("fetch"):
            commit = await self._fetch(request, interrupt)
        with self._timer.measure("plan"):
            inputs = await run_in_thread(self._read_inputs, request, commit)
            changes = await self._find_changes(inputs.plan, interrupt)
        builder = ContentBuilder(self._store, inputs.plan.layout, sink, request.caps, interrupt)
        with self._timer.measure("stage"):
            await builder.build(changes)
            # Some files are decided only by rendered content; those that changed are built now.
            changes = tree_changes.resolve_undecided(changes, inputs.plan.layout, builder.rendered)
            await builder.build(changes)
        changes = await run_in_thread(self._add_missing_facts, changes)
        return await run_in_thread(_build_planned_sync, inputs, changes, builder)

    async def _fetch(self, request: SyncRequest, interrupt: Interrupt) -> str:
        """The id of the fetched commit; the disk is inspected while Git works."""
        prefetch = asyncio.ensure_future(run_in_thread(self._inspector.prefetch))
        try:
            fetch = self._store.fetch(request.source, request.commit, ref=request.ref)
            commit = await interrupt.run(fetch)
            await prefetch
            return commit
        finally:
            await cancel_and_wait(prefetch)

    def _read_inputs(self, request: SyncRequest, commit: str) -> _SyncInputs:
        revision = SourceRevision(commit, request.ref, self._store.committed_at(commit))
        selected = selection.select(request.routing, request.pod, revision, cr_name=request.cr_name)
        layout = self._layouts.get(commit, selected, request.caps)
        survey = self._inspector.inspect(layout.roots)
        tree = self._store.tree_of(commit)
        plan_inputs = PlanInputs(layout, survey.manifest, survey.live_tree)
        return _SyncInputs(request, tree, selected, plan_inputs)

    async def _find_changes(self, inputs: PlanInputs, interrupt: Interrupt) -> Changes:
        layout, manifest, stats = inputs.layout, inputs.manifest, inputs.live_tree.files
        to_hash = tree_changes.paths_to_hash(layout, manifest, stats)
        hashes = await run_in_thread(self._volume.hash_files, to_hash)
        stamped: frozenset[str] = frozenset()
        changed = tree_changes.local_edits(layout, manifest, hashes) if manifest is not None else []
        if manifest is not None and changed:
            sources = _source_blobs(layout, manifest, changed)
            await interrupt.run(self._store.need(sources))
            stamped = await run_in_thread(
                inspection.stamped_files, self._volume, self._store, manifest, changed
            )
        return tree_changes.find_changes(layout, manifest, stats, hashes, stamped)

    def _add_missing_facts(self, changes: Changes) -> Changes:
        """`changes` with the content facts of unchanged files that an older agent did not record.

        They are read from the disk once, in the first sync after the upgrade.
        """
        incomplete = [
            (path, entry)
            for path, entry in changes.kept.items()
            if entry.about is None and file_renderer.is_resource_file(path)
        ]
        if not incomplete:
            return changes
        completed = {path: self._with_content_facts(path, entry) for path, entry in incomplete}
        return replace(changes, kept={**changes.kept, **completed})

    def _with_content_facts(self, path: str, entry: ManifestEntry) -> ManifestEntry:
        content = self._volume.directory.read(path) or b""
        facts = content_checks.content_facts(path, content, ()) or ContentFacts()
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            # The gateway has stamped it; its content without stamps is not known here.
            facts = structs.replace(facts, calm="")
        return structs.replace(entry, about=facts)

    def _commit(
        self,
        transaction: Transaction,
        planned: PlannedSync,
        before_commit: Callable[[PlannedSync], None],
    ) -> ApplyResult:
        before_commit(planned)
        applied = transaction.commit(planned.plan, planned.manifest)
        with contextlib.suppress(GitError):
            # A damaged store shows at the next fetch; the files are in place.
            self._store.keep(planned.plan.to_commit)
        return applied

    def _rollback(self) -> RollbackResult:
        before = self._volume.manifest()
        applied = self._volume.rollback()
        after = self._volume.manifest()
        return RollbackResult(
            applied, after, scan_rules.required_scans(manifests.changed_paths(before, after))
        )

    def _find_drift(self, excludes: GlobSet, everything: bool, api_token: str) -> FileDrift:
        return inspection.inspect_drift(
            self._volume,
            self._store,
            self._volume.manifest(),
            excludes,
            everything=everything,
            api_token=api_token,
        )


def _build_planned_sync(
    inputs: _SyncInputs, changes: Changes, builder: ContentBuilder
) -> PlannedSync:
    request, plan_inputs, layout = inputs.request, inputs.plan, inputs.plan.layout
    target = request.target(inputs.selection.gateway)
    plan = plans.build_plan(
        layout,
        changes,
        builder.rendered,
        plan_inputs.live_tree,
        request.safety,
        manifest=plan_inputs.manifest,
        target=target,
        caps=request.caps,
    )
    manifest = plans.next_manifest(
        layout,
        changes,
        builder.rendered,
        target=target,
        tree=inputs.tree_id,
        adopted=deletes.adoption_record(plan_inputs, plan.ops),
    )
    tree_warnings = _tree_warnings(plan, manifest, plan_inputs.live_tree)
    warnings = (*inputs.selection.warnings, *tree_warnings)
    # The question about kept files is none of them: the state has it, with what was answered.
    lasting = plans.lasting_warnings(layout, changes, builder.rendered, plan_inputs.live_tree)
    return PlannedSync(
        plan=plan,
        manifest=_with_warnings(manifest, (*lasting, *warnings)),
        selection=inputs.selection,
        layout=layout,
        changes=changes,
        live_tree=plan_inputs.live_tree,
        warnings=warnings,
        unconfirmed=tuple(plans.files_to_confirm(plan_inputs, request.safety, plan.ops)),
    )


def _with_warnings(manifest: Manifest, warnings: tuple[str, ...]) -> Manifest:
    """`manifest` with the first of `warnings`, which are then in force exactly as long as it."""
    listed = warnings[:_MAX_WARNINGS]
    return structs.replace(manifest, warnings=listed, warning_count=len(warnings))


def _tree_warnings(plan: Plan, manifest: Manifest, live_tree: LiveTree) -> Iterator[str]:
    """Warnings about the tree after the sync, also about files that it does not change."""
    facts = {path: entry.about for path, entry in manifest.files.items() if entry.about is not None}
    for path in sorted(path for path, about in facts.items() if about.warnings):
        yield from facts[path].warnings
    deleted = {op.path for op in plan.ops if op.op == "delete"}
    remaining = (live_tree.files.keys() - deleted) | manifest.files.keys()
    listed = {path: about.lists for path, about in facts.items() if about.lists}
    yield from map(str, content_checks.check_tree(remaining, listed))


def _source_blobs(layout: Layout, manifest: Manifest, paths: Iterable[str]) -> list[str]:
    """The blobs needed to decide whether the gateway only stamped its resource files."""
    return [
        layout.files[path].blob
        for path in paths
        if file_renderer.is_resource_file(path) and inspection.needs_source(manifest.files[path])
    ]
