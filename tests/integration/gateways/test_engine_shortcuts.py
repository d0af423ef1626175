"""Caches of the engine save work and do not change the result."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.gateways.engine_harness import (
    CAP,
    CORE,
    SERVICE,
    EngineHarness,
    engine_harness,
    resource_json,
)
from tests.support.git.http_server import git_settings
from windlass.gateways.agent import sync
from windlass.gateways.agent.sync import SyncEngine
from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.live_tree import LiveTree, SurveyScope
from windlass.gateways.tree.manifest import ManagedRoot, Manifest
from windlass.gateways.volume import inspection
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.inspection import MAX_PREFETCH_AGE_SECONDS, VolumeInspector
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.volume.state_directory import MANIFEST_PATH
from windlass.gateways.wire.routing import NormalizeRules, Routing
from windlass.git.commit_store import CommitStore
from windlass.git.runner import Git

LINE = f"{SERVICE}/projects/line"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[EngineHarness]:
    """A harness whose config.json files get a system name."""
    with engine_harness(tmp_path) as harness:
        harness.routing = Routing(normalize=NormalizeRules(system_name=True))
        yield harness


class CallCounts:
    """How often the whole layout was built, and the whole disk surveyed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layouts = self.surveys = 0
        build_layout, survey = sync.layouts.layout_for_selection, DataVolume.survey

        def counting_layout(*args: object) -> object:
            self.layouts += 1
            return build_layout(*args)  # type: ignore[arg-type]

        def counting_survey(
            applier: DataVolume, scope: SurveyScope, manifest: Manifest | None = None
        ) -> LiveTree:
            self.surveys += 1
            return survey(applier, scope, manifest)

        monkeypatch.setattr(sync.layouts, "layout_for_selection", counting_layout)
        monkeypatch.setattr(DataVolume, "survey", counting_survey)


async def _plan_without_caches(site: EngineHarness) -> tuple[bytes, bytes]:
    """The plan and the manifest of an engine without caches."""
    git = Git(git_settings(site.directory))
    store = CommitStore.open(git, site.directory / "cold", cap_bytes=CAP)
    with DataVolume(site.data, LockOwner("uid-2", "site-0", "node-a")) as applier:
        planned = await SyncEngine(applier, store).plan(site.sync_request())
    store.close()
    return plans.to_json(planned.plan), manifests.encode(planned.manifest)


COMMITS: tuple[tuple[dict[str, str | None], int], ...] = (
    ({f"{LINE}/view/view.json": '{"root": 2}'}, 0),
    ({f"{LINE}/new/view.json": "{}", f"{LINE}/new/resource.json": resource_json("view.json")}, 0),
    ({f"{LINE}/new/view.json": None, f"{SERVICE}/{CORE}/other/config.json": "{}"}, 0),
    ({"README.md": "also not for gateways"}, 0),
    ({f"{SERVICE}/.gitkeep": "", f"{LINE}/.gitkeep": ""}, 1),
)


async def test_plans_with_and_without_caches_are_equal(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over changed, new and deleted files, with one survey of the disk per sync."""
    # A fetch on a busy machine may take longer than a survey counts as recent.
    monkeypatch.setattr(inspection, "MAX_PREFETCH_AGE_SECONDS", 600.0)
    await site.engine.sync(site.sync_request())
    for files, layouts in COMMITS:
        site.commit(files)
        expected = await _plan_without_caches(site)
        with monkeypatch.context() as patch:
            counts = CallCounts(patch)
            planned = await site.engine.plan(site.sync_request())
            assert (counts.layouts, counts.surveys) == (layouts, 1)
        assert (plans.to_json(planned.plan), manifests.encode(planned.manifest)) == expected
        await site.engine.sync(site.sync_request())


async def test_a_manifest_is_decoded_only_if_it_changed(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a sync it is cached; after a rollback or a foreign write it is read."""
    await site.engine.sync(site.sync_request())
    first = site.applier.manifest()
    site.commit({f"{LINE}/view/view.json": '{"root": 2}'})
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "decode", pytest.fail)
        synced = await site.engine.sync(site.sync_request())
        second = site.applier.manifest()
    assert first is not None
    assert second is not None
    assert second.commit == synced.applied.to_commit
    assert manifests.encode(second) == (site.data / MANIFEST_PATH).read_bytes()
    assert (await site.engine.rollback()).manifest == first
    foreign = site.data / f"{MANIFEST_PATH}.other"
    foreign.write_bytes(manifests.encode(second))
    foreign.rename(site.data / MANIFEST_PATH)
    assert site.applier.manifest() == second


class ManualClock:
    """A clock that only a test advances."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("waited", "roots", "surveys"),
    [
        (0.0, (), 1),
        (MAX_PREFETCH_AGE_SECONDS + 1, (), 2),
        (0.0, (ManagedRoot("elsewhere", "dir"),), 2),
    ],
)
async def test_a_prefetched_survey_is_used_if_recent_and_of_the_same_roots(
    site: EngineHarness,
    monkeypatch: pytest.MonkeyPatch,
    waited: float,
    roots: tuple[ManagedRoot, ...],
    surveys: int,
) -> None:
    """An old one, or one of other roots, is repeated."""
    await site.engine.sync(site.sync_request())
    manifest = site.applier.manifest()
    assert manifest is not None
    counts, clock = CallCounts(monkeypatch), ManualClock()
    inspector = VolumeInspector(site.applier, clock)
    inspector.prefetch()
    clock.seconds += waited
    inspected = inspector.inspect((*manifest.roots, *roots))
    assert counts.surveys == surveys
    assert set(inspected.live_tree.files) == set(site.files)
