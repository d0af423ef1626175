"""Moves a remote branch from the tip we built on to our commit, or finds out why not.

A push is a compare-and-swap: it names the exact tip it expects (or its absence) and a
commit that descends from it, so it can only ever fast-forward. After a push that failed
or whose answer was lost, the remote ref is read again, and it decides, not the words:

| remote ref now                      | outcome                                         |
|-------------------------------------|-------------------------------------------------|
| our commit, or a descendant of it   | `Pushed(already=True)`: only the reply was lost |
| the expected tip                    | `Rejected` or `Transient`, by what was said     |
| a descendant of the expected tip    | `Raced`: somebody was faster                    |
| absent                              | `Absent`                                        |
| anything else                       | `Rewound`: history was rewritten; never forced  |
| unreadable for the moment           | `Transient`; the caller asks again later        |

Where the remote does not let us read, or our own store is at fault, the GitError says so.

Writes a commit into a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from windlass.base import failpoint, redaction
from windlass.git import ls_remote
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.format import failures, objects, refs
from windlass.git.format.objects import Person
from windlass.git.format.remote import Remote
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass.git.trees import TreeEditor


def write_commit(
    into: Store | TreeEditor,
    *,
    tree: str,
    parents: Sequence[str],
    author: Person,
    author_time: datetime,
    committer: Person,
    commit_time: datetime,
    message: str,
    sign: Callable[[bytes], str] | None = None,
) -> str:
    """The id of the new commit; `sign` makes an armoured signature over its bytes.

    Into an `Editing` it goes with everything else that is written together.
    """
    data = objects.encode_commit(
        tree=tree,
        parents=parents,
        author=author,
        author_time=author_time,
        committer=committer,
        commit_time=commit_time,
        message=message,
    )
    if sign is not None:
        data = objects.signed_commit(data, sign(data))
    editing = into if isinstance(into, TreeEditor) else TreeEditor(into)
    identifier = editing.keep("commit", data)
    if editing is not into:
        editing.write()
    return identifier


_DEPTHS = (10, 100, 1000, 20_000)
"""The first is enough for what others push while we do; a second question costs the next race."""
_LOCAL_FAULTS = frozenset({"Corrupt", "DiskFull"})
_REFUSALS = frozenset({"Rejected", "AuthFailed", "NotFound"})


@dataclass(frozen=True, slots=True)
class Pushed:
    """The remote has our commit; `already` = its first answer was lost, `tip` = where it is now."""

    already: bool = False
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Raced:
    """Somebody else moved the branch forward to `tip`, which the store now holds."""

    tip: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server does not want it: hook, protection, quota, permission."""

    message: str


@dataclass(frozen=True, slots=True)
class Transient:
    """It may work later."""

    message: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The branch is gone."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """The branch is at `tip`, which does not descend from what we built on."""

    tip: str


Outcome = Pushed | Raced | Rejected | Transient | Absent | Rewound


async def push(
    git: Git,
    store: Store,
    remote: Remote,
    credentials: Credentials,
    *,
    branch: str,
    commit: str,
    expected: str | None,
) -> Outcome:
    """Push `commit` where the branch is still at `expected` (None = does not exist)."""
    ref = refs.branch_ref(branch)
    await _check_descent(store, commit, expected)
    failpoint.reach("git.push.before")
    attempt = _Attempt(git, store, remote, credentials, ref, commit, expected)
    with credentials.in_use():
        try:
            await _send(attempt)
        except GitError as error:
            return await _after_failure(attempt, error)
    failpoint.reach("git.push.after")
    await asyncio.to_thread(store.remember, ref, commit)
    return Pushed(tip=commit)


async def _send(attempt: _Attempt) -> None:
    lease = f"--force-with-lease={attempt.ref}:{attempt.expected or ''}"
    change = f"{attempt.commit}:{attempt.ref}"
    await attempt.git.run(
        ["push", "--porcelain", "--no-verify", lease, "--", attempt.remote.url, change],
        credentials=attempt.credentials,
        remote=attempt.remote,
        cwd=attempt.store.directory,
        deadline_seconds=attempt.git.settings.push_timeout_seconds,
    )


async def _check_descent(store: Store, commit: str, expected: str | None) -> None:
    if not refs.is_object_id(commit) or (expected is not None and not refs.is_object_id(expected)):
        raise ValueError("a push names full commit ids")
    if expected is not None and not await asyncio.to_thread(store.contains, commit, expected):
        raise GitError("NonFastForward", f"{commit} does not descend from {expected}: not pushed")


@dataclass(frozen=True, slots=True)
class _Attempt:
    git: Git
    store: Store
    remote: Remote
    credentials: Credentials
    ref: str
    commit: str
    expected: str | None


async def _after_failure(attempt: _Attempt, error: GitError) -> Outcome:
    await asyncio.to_thread(attempt.store.remove_locks)
    try:
        tip = await _read_again(attempt, error)
        if tip is None and attempt.expected is not None:
            return Absent()
        if tip == attempt.expected:
            return _unmoved(error)
        assert tip is not None
        return await _moved(attempt, tip)
    except GitError as unreadable:
        if unreadable is not error and unreadable.reason in {"Timeout", "Unavailable"}:
            return Transient(f"{error.message}; then {unreadable.message}")
        raise


async def _read_again(attempt: _Attempt, error: GitError) -> str | None:
    """Where the remote ref is now; None where it is absent.

    The words decide only how to ask: who seems to have lost a race needs the new tip as soon
    as can be, and a fetch tells both; a listing is the smaller question to a sick server.
    """
    if error.reason == "NonFastForward":
        return await _fetched(attempt, _DEPTHS[0])
    found = await ls_remote.list_refs(attempt.git, attempt.remote, attempt.credentials)
    return found.refs.get(attempt.ref)


async def _fetched(attempt: _Attempt, depth: int) -> str | None:
    try:
        return await attempt.store.fetch(
            attempt.git, attempt.remote, attempt.credentials, attempt.ref, depth=depth
        )
    except GitError as error:
        if error.reason == "RefNotFound":
            return None
        raise


def _unmoved(error: GitError) -> Rejected | Transient:
    """Refused or passing: the only question that the words may answer."""
    if error.reason == "Corrupt":
        raise StoreCorrupt(error.message) from error
    if error.reason in _LOCAL_FAULTS:
        raise error
    message = _words(error)
    return Rejected(message) if error.reason in _REFUSALS else Transient(message)


async def _moved(attempt: _Attempt, tip: str) -> Pushed | Raced | Rewound | Absent:
    """Fetch deeper until the new tip is seen to descend from something we know."""
    for depth in _DEPTHS:
        if depth > _DEPTHS[0] or not await asyncio.to_thread(attempt.store.has, tip):
            found = await _fetched(attempt, depth)
            if found is None:
                return Absent()
            tip = found
        if await asyncio.to_thread(attempt.store.contains, tip, attempt.commit):
            return Pushed(already=True, tip=tip)
        base = attempt.expected
        if base is None or await asyncio.to_thread(attempt.store.contains, tip, base):
            return Raced(tip)
        if await asyncio.to_thread(attempt.store.is_complete, tip):
            break
    return Rewound(tip)


def _words(error: GitError) -> str:
    """The server's text and git's verdict, on one line and redacted."""
    verdicts = [
        line.split("\t")[-1]
        for line in error.stdout.decode("utf-8", "replace").splitlines()
        if line.startswith("!")
    ]
    text = "; ".join([*verdicts, error.message])
    return redaction.process.clean(failures.readable_stderr(text))
