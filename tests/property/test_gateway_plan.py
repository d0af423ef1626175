"""Whatever is committed, mapped and lying around: a plan makes exactly the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.gateways.sync_model import (
    Commit,
    DiskModel,
    GatewayModel,
    SyncResult,
    annotated_pod,
)
from tests.support.strategies.batched import balanced_column, rows
from windlass.gateways.tree import live_tree as live_trees
from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.deletes import DeleteAllowance, DeletePolicy, DeleteSafety
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.path_rules import SyncRefused, is_protected, parents
from windlass.gateways.wire.routing import (
    NormalizeRules,
    Routing,
    RoutingMapping,
    RoutingProfile,
    hash_routing,
)

FOLDERS = ("a", "b", "x", "projects")
NAMES = (*FOLDERS, "config.json", "resource.json", "db", ".resources", "skip")
TREES = [["/".join(parts) for parts in product(*[FOLDERS] * depth, NAMES)] for depth in range(3)]
CONTENTS = (
    b"",
    b"1",
    b'{"systemName":"n"}',
    b'{"attributes":{"lastModificationSignature":"s"}}',
    b"{}",
)
SOURCES = (".", "a", "b", "projects", "x/a")
DESTINATIONS = (".", "a", "a/", "x/b", "projects", "./projects/", "x")
policies: st.SearchStrategy[DeletePolicy] = st.sampled_from(["Mirror", "Manifest", "Never"])
EXCLUDED = "**/skip"
EXCLUDING = GlobSet([EXCLUDED])


def _clean(found: Mapping[str, bytes]) -> dict[str, bytes]:
    """A tree cannot hold a file and a directory of one name."""
    folders = {folder for path in found for folder in parents(path)}
    return {path: content for path, content in found.items() if path not in folders}


def _routing(mapped: list[tuple[str, str, bool]]) -> Routing:
    return Routing(
        profiles={
            "default": RoutingProfile(mappings=tuple(RoutingMapping(*one[:2]) for one in mapped))
        },
        exclude_patterns=(EXCLUDED,),
        normalize=NormalizeRules(system_name=mapped[0][2]),
    )


file_sets = rows(balanced_column(*TREES), CONTENTS, max_size=12).map(dict).map(_clean)
routings = rows(SOURCES, DESTINATIONS, [False, True], min_size=1, max_size=3).map(_routing)


def _gateway(routing: Routing, policy: DeletePolicy, lying: Mapping[str, bytes]) -> GatewayModel:
    disk = DiskModel()
    for path, content in lying.items():
        disk.write(path, content)
    return GatewayModel(annotated_pod(), routing, DeleteSafety(policy), disk)


def _synced(gateway: GatewayModel, commit: Commit) -> SyncResult | None:
    """One sync, allowed to empty its roots; None where it was refused, and then did nothing."""
    before = dict(gateway.disk.stats), set(gateway.disk.directories)
    allowed = DeleteAllowance(commit.id, hash_routing(gateway.routing))
    gateway.safety = replace(gateway.safety, allowed=allowed)
    try:
        return gateway.sync(commit)
    except SyncRefused:
        assert before == (gateway.disk.stats, gateway.disk.directories)
        return None


def _planned(gateway: GatewayModel, commit: Commit) -> bytes:
    """The plan as text, or the refusal."""
    try:
        return plans.to_json(gateway.plan(commit).plan)
    except SyncRefused as refused:
        return str(refused).encode()


def _spared(path: str) -> bool:
    return is_protected(path) or EXCLUDING.match(path) is not None


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=4))
def test_a_sync_makes_exactly_the_layout(
    routing: Routing,
    policy: DeletePolicy,
    lying: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """Planned paths have their content, the rest of managed directories follows the policy."""
    gateway = _gateway(routing, policy, lying)
    for files in commits:
        old, before = gateway.manifest, dict(gateway.disk.files)
        done = _synced(gateway, Commit(files))
        if done is None:
            continue
        now = gateway.disk.files
        for path, wanted in done.layout.files.items():
            assert now[path] == done.staged.get(path, before.get(path))
            assert not _spared(path)
            assert wanted.blob
        gone = before.keys() - now.keys()
        ours = old.files.keys() if old is not None else set()
        managed = done.layout.managed_directories
        for path in gone:
            inside = live_trees.is_within(path, managed)
            assert path in ours or (inside and old is not None and policy == "Mirror")
        if policy == "Mirror" and old is not None:
            mirrored = managed.intersection(old.directories)
            left = {path for path in now if live_trees.is_within(path, mirrored)}
            assert not {path for path in left if not _spared(path)} - done.layout.files.keys()


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=4))
def test_what_is_not_ours_stays_as_it_is(
    routing: Routing,
    policy: DeletePolicy,
    lying: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """Excluded and protected files and everything outside roots keep bytes and times."""
    gateway = _gateway(routing, policy, lying)
    before = dict(gateway.disk.stats)
    managed: set[str] = set()
    single: set[str] = set()
    for files in commits:
        done = _synced(gateway, Commit(files))
        if done is not None:
            managed |= done.layout.managed_directories
            single |= {root.path for root in done.layout.roots}
    for path, stat in before.items():
        inside = path in single or live_trees.is_within(path, frozenset(managed))
        if _spared(path) or not inside:
            assert gateway.disk.stats[path] == stat


@settings(deadline=None)
@given(routings, policies, file_sets, file_sets)
def test_the_first_sync_deletes_nothing(
    routing: Routing, policy: DeletePolicy, lying: dict[str, bytes], files: dict[str, bytes]
) -> None:
    """Adoption overwrites and adds, and takes nothing away."""
    gateway = _gateway(routing, policy, lying)
    done = _synced(gateway, Commit(files))
    assume(done is not None)
    assert done is not None
    assert not {"delete", "rmdir"} & {op.op for op in done.plan.ops}


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=4))
def test_what_lay_there_before_goes_only_with_a_word(
    routing: Routing,
    policy: DeletePolicy,
    lying: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """Unless a commit has brought a file itself, no later one deletes it."""
    gateway = _gateway(routing, policy, lying)
    brought: set[str] = set()
    for files in commits:
        try:
            done = gateway.sync(Commit(files))
        except SyncRefused:
            continue
        brought |= done.layout.files.keys()
        assert lying.keys() - brought <= gateway.disk.files.keys()


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=3))
def test_a_second_look_finds_nothing_to_do(
    routing: Routing,
    policy: DeletePolicy,
    lying: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """After a sync the same commit needs no render and, once adopted, no step."""
    gateway = _gateway(routing, policy, lying)
    for files in commits:
        if _synced(gateway, Commit(files)) is None:
            continue
        again = _synced(gateway, Commit(files))
        assert again is not None
        assert again.changes.render == ()
        assert {op.op for op in again.plan.ops} <= {"delete", "rmdir"}
        third = gateway.plan(Commit(files))
        assert third.plan.ops == ()
        assert third.plan.scans == ()


@settings(deadline=None)
@given(routings, file_sets, file_sets, rows(range(64), [None, *CONTENTS], max_size=40))
def test_hand_edits_are_undone(
    routing: Routing,
    files: dict[str, bytes],
    later: dict[str, bytes],
    edits: list[tuple[int, bytes | None]],
) -> None:
    """Whatever a person changed in managed files, the next sync of any commit puts back."""
    gateway = _gateway(routing, "Mirror", {})
    assume(_synced(gateway, Commit(files)) is not None)
    synced = sorted(gateway.disk.files)
    for path, content in {
        synced[number % len(synced)]: text for number, text in edits if synced
    }.items():
        if content is not None:
            gateway.disk.replace(path, content)
        else:
            del gateway.disk.files[path], gateway.disk.stats[path]
    edited = _synced(gateway, Commit(later))
    fresh = _gateway(routing, "Mirror", {})
    expected = _synced(fresh, Commit(later))
    if edited is not None and expected is not None:
        assert gateway.disk.files == fresh.disk.files


@settings(deadline=None)
@given(routings, file_sets, file_sets, file_sets)
def test_equal_inputs_give_equal_plans(
    routing: Routing, lying: dict[str, bytes], one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    """The order in which files are listed or were remembered changes no byte of a plan."""
    gateway = _gateway(routing, "Mirror", lying)
    assume(_synced(gateway, Commit(one)) is not None)
    first = _planned(gateway, Commit(two))
    assert gateway.manifest is not None
    gateway.manifest = manifests.decode(manifests.encode(gateway.manifest))
    assert _planned(gateway, Commit(dict(reversed(two.items())))) == first


@settings(deadline=None)
@given(file_sets, st.sampled_from(["moved", "elsewhere/deep"]))
def test_a_move_is_no_delete(files: dict[str, bytes], folder: str) -> None:
    """A tree that moves as a whole within its root passes the strictest guard."""
    fresh = {f"s/projects/{path}": content for path, content in files.items()}
    assume(fresh and not any(is_protected(path) for path in fresh))
    gateway = GatewayModel(
        annotated_pod(service_path="s"), safety=DeleteSafety(max_deletes=1, max_delete_percent=1)
    )
    assume(_synced(gateway, Commit({**fresh, "s/projects/stays": b"?"})) is not None)
    moved = {path.replace("projects/", f"projects/{folder}/", 1): fresh[path] for path in fresh}
    done = gateway.plan(Commit({**moved, "s/projects/stays": b"?"}))
    assert done.plan.guards == ()
