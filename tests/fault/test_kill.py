"""SIGKILL before and after every named side effect: the files equal those of an undisturbed run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault import history
from tests.fault.candidate import Candidate
from tests.fault.conftest import Mirrors
from tests.fault.open_window import USUAL_PUSH_TIMEOUT
from tests.support.git.http_server import files_at
from tests.support.processes.operator import eventually
from tests.support.reverser.reference_run import FOREIGN, ReferenceRun, Tree

pytestmark = pytest.mark.cluster

FAILPOINTS = (
    "git.fetch.after",
    "git.fetch.before",
    "git.push.after",
    "git.push.before",
    "git.store.write.after",
    "git.store.write.before",
    "reverser.commit.after",
    "reverser.commit.before",
    "reverser.push.after",
    "reverser.push.before",
    "runtime.event.after",
    "runtime.event.before",
    "runtime.lease.after",
    "runtime.lease.before",
    "runtime.status.after",
    "runtime.status.before",
)
"""Every side effect of the sequence; the reference run checks that none is missing."""

_LATER = frozenset({"git.push.after", "reverser.push.before", "reverser.commit.after"})
"""Here the second visit is chosen: by then the folder has a history of its own."""

_REFERENCE: list[Tree] = []


@pytest.fixture
def reference(candidates: Callable[..., Candidate], mirrors: Mirrors, tmp_path: Path) -> Tree:
    """The files of an undisturbed run, made once; it also checks the list of failpoints."""
    if not _REFERENCE:
        visited = tmp_path / "visited"
        operator, run = candidates(USUAL_PUSH_TIMEOUT), ReferenceRun(mirrors())
        operator.start({"WINDLASS_FAILPOINT_LOG": str(visited)})
        run.configure()
        run.mirrored.await_synced()
        run.run_steps(run.is_in_git)
        operator.kill()
        prefixes = ("git.", "reverser.", "runtime.")
        visited_failpoints = {
            failpoint for failpoint in visited.read_text().split() if failpoint.startswith(prefixes)
        }
        assert visited_failpoints == set(FAILPOINTS)
        history.assert_sound(run.mirrored)
        _REFERENCE.append(run.tree())
    return _REFERENCE[0]


@pytest.mark.scenario("A78")
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_kill_at_any_side_effect_leads_to_the_same_files(
    failpoint: str, reference: Tree, candidates: Callable[..., Candidate], mirrors: Mirrors
) -> None:
    """The next start finishes the work: equal files, no repeated commit, a sound history."""
    # A push that was given up and landed all the same passes fewer failpoints.
    operator, run = candidates(USUAL_PUSH_TIMEOUT), ReferenceRun(mirrors())
    run.configure()
    operator.spawn({"WINDLASS_FAILPOINTS": f"{failpoint}=kill@{2 if failpoint in _LATER else 1}"})
    run.run_steps(lambda number: not operator.is_alive or run.is_in_git(number))
    assert operator.wait_for_exit() == -9, "killed at the failpoint"
    operator.spawn()
    eventually(lambda: run.tree() == reference, "the files of the reference run", seconds=60.0)
    history.assert_sound(run.mirrored)
    operator.kill()
    theirs = files_at(run.mirrored.path)
    assert {path: theirs[path] for path in FOREIGN} == FOREIGN
