"""Spreads a run over several workers, so that no two of them start the same cluster.

A pytest plugin; without `-n` it changes nothing but the order. Files of one folder whose
tests share a cluster stay together on one worker, the longest of them apart; every other
file may go anywhere. What shares a cluster comes first, because it takes longest and cannot
be divided; its clusters end with it, not with the session. A file's own text says which it
is, so that the process that hands out the work, which collects nothing, knows it too.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

_ROOT = Path(__file__).parents[3]
_NODE = "node"
_LONG = {
    "tests/fault/test_git_faults.py": "git faults",
    "tests/fault/test_kill.py": "kills",
    "tests/integration/gateways/test_agent.py": "agent",
}
"""Files that are worth a cluster of their own, because the run would wait for them."""

_TOGETHER = {"tests/integration/runtime": "tests/integration/kube"}
"""Folders that are too short for a cluster of their own, and with whom they share one."""

_SLOWEST = (
    _NODE,
    "tests/integration/environments",
    "tests/integration/reverser",
    "tests/fault",
    "tests/integration/dev",
    *_LONG.values(),
    "tests/integration/gateways",
    "tests/integration/api",
)
"""What takes longest comes first."""


@functools.cache
def group(file: str) -> str:
    """What a file's tests share with others: the node, its folder's clusters, or nothing."""
    if file in _LONG:
        return _LONG[file]
    text = (_ROOT / file).read_text()
    if "mark.node" in text:
        return _NODE
    folder = file.rpartition("/")[0]
    return _TOGETHER.get(folder, folder) if "mark.cluster" in text else file


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long groups first; the rest stays in random order."""
    items.sort(key=lambda item: _position(_group_of(item.nodeid)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what a group shared after its last test: an idle cluster costs time."""
    here = _group_of(item.nodeid)
    if nextitem is not None and _shares(here) and _group_of(nextitem.nodeid) != here:
        # pytest knows no public way to end the fixtures of a session before its end.
        item.session._setupstate.teardown_exact(None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Distribute whole groups, in their order."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


def _group_of(nodeid: str) -> str:
    return group(nodeid.partition("::")[0])


def _shares(name: str) -> bool:
    return not name.endswith(".py")


def _position(name: str) -> tuple[int, str]:
    if name in _SLOWEST:
        return _SLOWEST.index(name), ""
    if not _shares(name):
        return len(_SLOWEST) + 1, ""
    return len(_SLOWEST), name
