"""The worker loop, on virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable

import pytest
import structlog

from windlass.base.errors import Fatal, Retryable, Stalled, Waiting, WindlassError
from windlass.runtime.controller import Controller, ReconcileResult
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.queue import KeyedQueue

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

READY = Outcome(Verdict("True", "Ready", "fine"))


class Scripted:
    """A reconcile that plays a list per key, then succeeds; records the times of its calls."""

    def __init__(self, **script: list[Outcome | BaseException]) -> None:
        self.script = script
        self.times: dict[str, list[float]] = defaultdict(list)

    async def __call__(self, key: str) -> Outcome:
        self.times[key].append(asyncio.get_running_loop().time())
        steps = self.script.get(key)
        step = steps.pop(0) if steps else READY
        if isinstance(step, BaseException):
            raise step
        return step


class RecordingReporter:
    """A reporter that records every report."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, Outcome]] = []
        self.reads = 0
        self.faults: list[Exception] = []

    def read_status(self, key: str) -> int:
        del key
        self.reads += 1
        return self.reads

    async def report(self, key: str, seen: int, outcome: Outcome) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.reports.append((key, seen, outcome))


async def run_for(
    seconds: float,
    reconcile: Callable[[str], Awaitable[Outcome]],
    *keys: str,
    reporter: RecordingReporter | None = None,
    results: list[ReconcileResult] | None = None,
    workers: int = 2,
) -> KeyedQueue[str]:
    """Run a controller over `keys` for that many seconds."""
    queue: KeyedQueue[str] = KeyedQueue()
    on_result_hook = results.append if results is not None else None
    controller = Controller(
        "test", queue, reconcile, reporter=reporter, workers=workers, on_result=on_result_hook
    )
    for key in keys:
        queue.add(key)
    running = asyncio.create_task(controller.run())
    await asyncio.wait([running], timeout=seconds)
    if running.done():
        await running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return queue


async def test_waiting_comes_back_after_its_time() -> None:
    """`Waiting(after)` is reconciled again exactly then."""
    reconcile = Scripted(a=[Waiting("W", "m", after=30)])
    await run_for(100, reconcile, "a")
    assert reconcile.times["a"] == pytest.approx([0, 30])


async def test_stalled_does_not_come_back() -> None:
    """`Stalled` waits for a change, or for its time where it has one."""
    reconcile = Scripted(a=[Stalled("S", "m")], b=[Stalled("S", "m", after=60)])
    await run_for(1000, reconcile, "a", "b")
    assert reconcile.times["a"] == pytest.approx([0])
    assert reconcile.times["b"] == pytest.approx([0, 60])


async def test_retryable_backs_off_or_waits_its_own_time() -> None:
    """`Retryable` follows the backoff, or exactly its `after`."""
    reconcile = Scripted(a=[Retryable("R", "m")] * 3, b=[Retryable("R", "m", after=40)])
    queue = await run_for(1000, reconcile, "a", "b")
    gaps = [later - at for at, later in itertools.pairwise(reconcile.times["a"])]
    assert [0.25 <= gaps[0] <= 0.5, 0.5 <= gaps[1] <= 1, 1 <= gaps[2] <= 2] == [True] * 3
    assert reconcile.times["b"] == pytest.approx([0, 40])
    assert queue.failing == 0


@pytest.mark.parametrize("error", [WindlassError("E", "m"), ValueError("x"), KeyError("y")])
async def test_an_unexpected_error_backs_off(error: Exception) -> None:
    """An error of unknown type is retried with backoff."""
    reconcile = Scripted(a=[error])
    await run_for(10, reconcile, "a")
    assert len(reconcile.times["a"]) == 2


async def test_a_poison_key_does_not_stop_others() -> None:
    """A key that always fails does not delay the others, even with one worker."""

    async def reconcile(key: str) -> Outcome:
        if key == "poison":
            raise RuntimeError("boom")
        served.append(key)
        return READY

    served: list[str] = []
    queue = await run_for(600, reconcile, "poison", "a", "b", "c", workers=1)
    assert served == ["a", "b", "c"]
    assert queue.failing == 1


async def test_a_reconcile_canceled_from_inside_fails_alone() -> None:
    """A stray cancellation inside a reconcile does not end its worker."""
    reconcile = Scripted(a=[asyncio.CancelledError()])
    await run_for(10, reconcile, "a", "b", workers=1)
    assert len(reconcile.times["a"]) == 2
    assert len(reconcile.times["b"]) == 1


@pytest.mark.parametrize(
    "error", [Fatal("Broken", "m"), ExceptionGroup("g", [ValueError("x"), Fatal("Broken", "m")])]
)
async def test_fatal_ends_the_controller(error: Exception) -> None:
    """`run` raises the Fatal, also from a group, and its workers have ended."""
    before = len(asyncio.all_tasks())
    with pytest.raises(Fatal, match="Broken"):
        await run_for(10, Scripted(a=[error]), "a", "b")
    assert len(asyncio.all_tasks()) == before


async def test_success_with_requeue_comes_back() -> None:
    """`requeue_after` of an outcome is honored."""
    again = Outcome(Verdict("True", "Ready", "fine"), requeue_after=60)
    reconcile = Scripted(a=[again, again])
    await run_for(1000, reconcile, "a")
    assert reconcile.times["a"] == pytest.approx([0, 60, 120])


async def test_outcomes_and_errors_are_reported_with_the_status_read_before() -> None:
    """The reporter reads the status before the reconcile and gets every outcome, of errors too."""
    reporter = RecordingReporter()
    await run_for(100, Scripted(a=[Stalled("AccessDenied", "m")]), "a", reporter=reporter)
    [(key, seen, outcome)] = reporter.reports
    assert (key, seen) == ("a", 1)
    assert outcome.stalled
    assert outcome.ready == Verdict("False", "AccessDenied", "m")


async def test_a_failed_report_is_retried_with_the_reconcile() -> None:
    """A failed status write fails the reconcile; the worker goes on."""
    reporter = RecordingReporter()
    reporter.faults = [Retryable("Unavailable", "m"), ValueError("x")]
    reconcile = Scripted()
    await run_for(100, reconcile, "a", reporter=reporter, workers=1)
    assert len(reconcile.times["a"]) == 3
    assert len(reporter.reports) == 1


async def test_a_key_has_one_reconcile_at_a_time() -> None:
    """A key that changes during its reconcile is reconciled once more, after it."""
    running = 0
    most = 0
    times = []

    async def reconcile(key: str) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            asyncio.get_running_loop().call_later(1, queue.add, key)
            asyncio.get_running_loop().call_later(2, queue.add, key)
        await asyncio.sleep(5)
        running -= 1
        return READY

    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    controller = Controller("test", queue, reconcile, workers=4)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(50)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert times == pytest.approx([0, 5])
    assert most == 1


async def test_reconciles_are_counted_by_result() -> None:
    """The hook gets the result and duration of each reconcile."""
    results: list[ReconcileResult] = []
    script = Scripted(
        gone=[Outcome.gone()],
        stalled=[Stalled("S", "m")],
        waiting=[Waiting("W", "m", after=999)],
        failed=[ValueError("x")],
    )
    await run_for(0.1, script, "gone", "stalled", "waiting", "failed", "done", results=results)
    assert sorted(passed.result for passed in results) == [
        "done",
        "failed",
        "gone",
        "stalled",
        "waiting",
    ]
    assert all(passed.controller == "test" and passed.seconds >= 0 for passed in results)


async def test_log_lines_name_the_key_and_the_reason() -> None:
    """A failed reconcile is logged with its controller, key and reason."""
    processors = [structlog.contextvars.merge_contextvars]
    with structlog.testing.capture_logs(processors) as lines:  # type: ignore[arg-type]
        await run_for(
            0.1, Scripted(a=[Stalled("AccessDenied", "ask")], b=[ValueError("x")]), "a", "b"
        )
    logged = {(line["key"], line["event"], line.get("reason")) for line in lines if "key" in line}
    assert ("a", "stalled", "AccessDenied") in logged
    assert ("b", "crashed", "InternalError") in logged
    assert all(len(line["error_id"]) == 8 for line in lines if line["event"] == "crashed")
    assert all(line["controller"] == "test" for line in lines if "key" in line)


async def test_an_error_is_logged_once_until_it_changes_or_ends() -> None:
    """A retry that fails alike is no news; the same error after a success is."""
    script: list[Outcome | BaseException] = [
        *[Stalled("InvalidSpec", "m", after=1) for _ in range(3)],
        Stalled("InvalidSpec", "another field", after=1),
        Outcome(Verdict("True", "Ready", "fine"), requeue_after=1),
        Stalled("InvalidSpec", "another field", after=1),
    ]
    with structlog.testing.capture_logs() as lines:
        await run_for(20, Scripted(a=script), "a")
    messages = [line["message"] for line in lines if line["event"] == "stalled"]
    assert messages == ["m", "another field", "another field"]
