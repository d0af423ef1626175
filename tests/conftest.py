"""Fixtures and hooks of every test."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytest_plugins = ["tests.support.plugins.scenario_report", "tests.support.plugins.xdist_groups"]

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile(
    "windlass", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("windlass")


def pytest_configure(config: pytest.Config) -> None:
    """Keep looptime from creating an event loop in tests that have none; it would not be closed."""
    del config
    asyncio.set_event_loop(None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that would start a cluster without its marker; skip those that cannot run."""
    _skip_where_no_node_can_run(items)
    silent = [
        item.nodeid
        for item in items
        if "cluster" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("cluster")
    ]
    if silent:
        raise pytest.UsageError(f"mark with @pytest.mark.cluster: {', '.join(silent)}")


def _skip_where_no_node_can_run(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("node")]
    if not wanted:
        return
    from windlass_dev.node import requirements

    problem = requirements.unmet_requirement()
    if problem is not None:
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=f"a node cannot run here: {problem}"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build or find the control plane's programs once, outside any test's time limit."""
    _settle_memory()
    wanted = any(item.get_closest_marker("cluster") for item in session.items)
    if wanted and not session.config.option.collectonly:
        from tests.support.cluster import control_plane

        control_plane.prepare()
        control_plane.remove_leftovers()
        nodes = [item for item in session.items if item.get_closest_marker("node")]
        if any(not item.get_closest_marker("skip") for item in nodes):
            from tests.support.cluster import node

            node.prepare()


def _settle_memory() -> None:
    """Let the collector examine what tests create, not everything that was loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test that leaves something open, not whichever runs when that is collected."""
    yield
    left: list[str] = []
    previous_hook, sys.unraisablehook = (
        sys.unraisablehook,
        lambda about: left.append(repr(about.exc_value)),
    )
    try:
        gc.collect()
    finally:
        sys.unraisablehook = previous_hook
    if left:
        pytest.fail(f"{item.nodeid} left to the garbage collector: {left}", pytrace=False)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """The control plane that this run shares; only for tests marked `cluster`."""
    from tests.support.cluster import control_plane as support

    with support.running() as running_cluster:
        yield running_cluster


@pytest.fixture(scope="session")
def node_cluster() -> Iterator[LocalCluster]:
    """The cluster with a node that this run shares; only for tests marked `cluster`, `node`."""
    from tests.support.cluster import node as support

    with support.running("node") as running_cluster:
        yield running_cluster


@pytest.fixture(scope="session")
def quiet_cluster() -> Iterator[LocalCluster]:
    """A control plane without an operator, for tests that run parts of one themselves."""
    from tests.support.cluster import control_plane as support

    with support.running("quiet") as running_cluster:
        yield running_cluster


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own on the shared control plane."""
    from tests.support.cluster import control_plane as support

    with support.fresh_namespace(cluster) as name:
        yield name
