"""A gateway's data directory as a dictionary, and the whole way of a sync over it.

`DiskModel` carries out plans as an agent would, without a disk; `Commit` is a repository of
plain bytes. `sync` goes through every planning module in the order the engine does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from windlass.gateways.render import file_renderer
from windlass.gateways.render.file_renderer import RenderRecipe
from windlass.gateways.tree import changes as changing
from windlass.gateways.tree import deletes, plan, selection
from windlass.gateways.tree import layout as layouts
from windlass.gateways.tree import live_tree as live_trees
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.changes import Changes, RenderedDigest
from windlass.gateways.tree.deletes import DeleteSafety, PlanInputs
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.layout import Layout
from windlass.gateways.tree.live_tree import LiveTree, OtherKind
from windlass.gateways.tree.manifest import FileStat, Manifest
from windlass.gateways.tree.path_rules import is_protected, parents
from windlass.gateways.tree.plan import Plan, PlanTarget
from windlass.gateways.tree.selection import GatewaySelection, SourceRevision
from windlass.gateways.wire.routing import ANNOTATION_PREFIX, Routing, hash_profile, hash_routing
from windlass.git.store import Entry

FILE_MODE = 0o100644


def blob_id(content: bytes) -> str:
    """A stand-in for git's id of a content."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def annotated_pod(name: str = "site-0", **annotations: str) -> GatewayPod:
    """A pod with our annotations, underscores standing for dashes."""
    said = {ANNOTATION_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return GatewayPod(name, "plant", said, {"app.kubernetes.io/name": "site"})


@dataclass(slots=True)
class Commit:
    """The files of one commit; a mode other than a plain file's stands in `modes`."""

    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return blob_id(repr(sorted(self.files.items())).encode())

    @property
    def listing(self) -> dict[str, Entry]:
        return {
            path: Entry(self.modes.get(path, FILE_MODE), blob_id(content))
            for path, content in self.files.items()
        }


@dataclass(slots=True)
class DiskModel:
    """Files and directories; every write gives a file a stat it never had before."""

    files: dict[str, bytes] = field(default_factory=dict)
    stats: dict[str, FileStat] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    others: dict[str, OtherKind] = field(default_factory=dict)
    writes: int = 0

    def write(self, path: str, content: bytes) -> None:
        """Put a file, with the directories above it."""
        self.directories.update(parents(path))
        self.replace(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Put a file into a directory that must be there."""
        assert path not in self.directories
        assert path not in self.others
        assert all(folder in self.directories for folder in parents(path)), path
        self.writes += 1
        self.files[path] = content
        self.stats[path] = FileStat(len(content), self.writes, self.writes)

    def survey(self, layout: Layout, manifest: Manifest | None) -> LiveTree:
        """The live tree, as a survey of the managed roots finds it."""
        where = live_trees.survey_scope(layout.roots, manifest)
        walk, stat_only = frozenset(where.walk), frozenset(where.stat_only)

        def is_surveyed(path: str) -> bool:
            return not is_protected(path) and (
                path in stat_only or live_trees.is_within(path, walk)
            )

        others = {path: kind for path, kind in self.others.items() if is_surveyed(path)}
        others |= {path: "protected" for path in self._protected() if not is_surveyed(path)}
        return LiveTree(
            files={path: stat for path, stat in self.stats.items() if is_surveyed(path)},
            directories=frozenset(path for path in self.directories if is_surveyed(path)),
            others=others,
        )

    def carry_out(self, plan: Plan, staged: Mapping[str, bytes]) -> None:
        for op in plan.ops:
            if op.op == "mkdir":
                assert op.path not in self.files
                assert all(folder in self.directories for folder in parents(op.path))
                self.directories.add(op.path)
            elif op.op == "put":
                assert hashlib.sha256(staged[op.path]).hexdigest() == op.sha256
                self.replace(op.path, staged[op.path])
            elif op.op == "delete":
                del self.files[op.path], self.stats[op.path]
            else:
                self._remove(op.path)

    def _remove(self, folder: str) -> None:
        inside = (*self.files, *self.directories, *self.others)
        assert not [path for path in inside if path.startswith(f"{folder}/")], folder
        self.directories.remove(folder)

    def _protected(self) -> set[str]:
        return {path for path in (*self.files, *self.directories) if is_protected(path)}


@dataclass(slots=True)
class SyncResult:
    """Everything one sync came to."""

    selection: GatewaySelection
    layout: Layout
    changes: Changes
    rendered: dict[str, RenderedDigest]
    staged: dict[str, bytes]
    plan: Plan
    target: PlanTarget
    situation: PlanInputs

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(op.op, op.path) for op in self.plan.ops]

    def paths(self, op: str) -> list[str]:
        return [one.path for one in self.plan.ops if one.op == op]


@dataclass(slots=True)
class GatewayModel:
    """One gateway with its disk and what is remembered of the last sync."""

    pod: GatewayPod
    routing: Routing = field(default_factory=Routing)
    safety: DeleteSafety = field(default_factory=DeleteSafety)
    disk: DiskModel = field(default_factory=DiskModel)
    manifest: Manifest | None = None

    def plan(self, commit: Commit) -> SyncResult:
        """The way to a plan, touching nothing."""
        chosen = selection.select(
            self.routing, self.pod, SourceRevision(commit.id, "main", 1), cr_name="site"
        )
        layout = layouts.layout_for_selection(commit.listing, chosen)
        live = self.disk.survey(layout, self.manifest)
        doubtful = changing.paths_to_hash(layout, self.manifest, live.files)
        hashes = {path: hashlib.sha256(self.disk.files[path]).hexdigest() for path in doubtful}
        found = changing.find_changes(layout, self.manifest, live.files, hashes)
        staged: dict[str, bytes] = {}
        rendered = _rendered(commit, layout, found, staged)
        found = changing.resolve_undecided(found, layout, rendered)
        rendered = _rendered(commit, layout, found, staged)
        target = self._target(commit)
        plan = plans.build_plan(
            layout, found, rendered, live, self.safety, manifest=self.manifest, target=target
        )
        situation = PlanInputs(layout, self.manifest, live)
        return SyncResult(chosen, layout, found, rendered, staged, plan, target, situation)

    def sync(self, commit: Commit) -> SyncResult:
        """Plan and carry out, as the agent would."""
        done = self.plan(commit)
        plans.check_guards(done.plan)
        self.disk.carry_out(done.plan, done.staged)
        after = plan.next_manifest(
            done.layout,
            done.changes,
            done.rendered,
            target=done.target,
            adopted=deletes.adoption_record(done.situation, done.plan.ops),
        )
        for path in done.paths("put"):
            entry = after.files[path]
            assert entry.stat is None
            after.files[path] = msgspec.structs.replace(entry, stat=self.disk.stats[path])
        self.manifest = after
        return done

    def _target(self, commit: Commit) -> PlanTarget:
        routed = hash_routing(self.routing)
        hashed = hash_profile(routed, self.pod.annotations, self.pod.labels)
        return PlanTarget("site", commit.id, hashed, routed)


def _rendered(
    commit: Commit, layout: Layout, found: Changes, staged: dict[str, bytes]
) -> dict[str, RenderedDigest]:
    digests = {}
    for path in found.render:
        wanted = layout.files[path]
        recipe, _ = found.recipe(wanted)
        made = file_renderer.render_file(
            commit.files[wanted.source], path, recipe or RenderRecipe()
        )
        staged[path] = made.content
        sha256 = hashlib.sha256(made.content).hexdigest()
        named = made.system_names > 0
        digests[path] = RenderedDigest(sha256, len(made.content), made.transforms, named)
    return digests
