"""Pushes a commit by compare-and-swap: moves a remote branch from the expected tip to our commit.

A push names the exact tip it expects (or its absence) and a commit that descends from it, so it can
only ever fast-forward. After a push that failed or whose response was lost, the remote ref is read
again, and that decides, not the text of the error:

| remote ref now                      | outcome                                             |
|-------------------------------------|-----------------------------------------------------|
| our commit, or a descendant of it   | `Pushed(already=True)`: only the response was lost  |
| the expected tip                    | `Rejected` or `Transient`, by the error             |
| a descendant of the expected tip    | `Raced`: another writer was faster                  |
| absent                              | `Absent`                                            |
| anything else                       | `Rewound`: history was rewritten; never forced      |
| unreadable for the moment           | `Transient`; the caller tries again later           |

Where the remote does not let us read, or our own store is at fault, a GitError is raised.

`write_commit` writes the commit into the store before.
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
    """Write a commit; returns its id. `sign` makes an armored signature over its bytes.

    Into a `TreeEditor` it goes together with everything else that the editor writes.
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
    editor = into if isinstance(into, TreeEditor) else TreeEditor(into)
    identifier = editor.keep("commit", data)
    if editor is not into:
        editor.write()
    return identifier


_DEPTHS = (10, 100, 1000, 20_000)
"""The first covers what others push meanwhile; a second fetch would likely lose the next race."""
_LOCAL_FAULTS = frozenset({"Corrupt", "DiskFull"})
_REFUSALS = frozenset({"Rejected", "AuthFailed", "NotFound"})


@dataclass(frozen=True, slots=True)
class Pushed:
    """The remote has our commit; `already`: the first response was lost. `tip`: its commit now."""

    already: bool = False
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Raced:
    """Another writer moved the branch forward to `tip`, which the store now holds."""

    tip: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server refused the push: hook, protection, quota, permission."""

    message: str


@dataclass(frozen=True, slots=True)
class Transient:
    """The push failed in a way that may pass."""

    message: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The branch no longer exists."""


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
        raise GitError("NonFastForward", f"{commit} does not descend from {expected}")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One push with everything it needs."""

    git: Git  # with the limits of this push
    store: Store  # holds `commit` and, where there is one, `expected`
    remote: Remote  # to push to
    credentials: Credentials  # for `remote`
    ref: str  # full name of the branch
    commit: str  # the id to push
    expected: str | None  # the tip that the branch must have; None: it must not exist


async def _after_failure(attempt: _Attempt, error: GitError) -> Outcome:
    await asyncio.to_thread(attempt.store.remove_locks)
    try:
        tip = await _read_again(attempt, error)
        if tip is None and attempt.expected is not None:
            return Absent()
        if tip == attempt.expected:
            return _outcome_unmoved(error)
        assert tip is not None
        return await _outcome_moved(attempt, tip)
    except GitError as unreadable:
        if unreadable is not error and unreadable.reason in {"Timeout", "Unavailable"}:
            return Transient(f"{error.message}; then {unreadable.message}")
        raise


async def _read_again(attempt: _Attempt, error: GitError) -> str | None:
    """The commit of the remote ref now; None where it is absent.

    The error decides only how to read: after a lost race the new tip is needed at once, and a fetch
    brings both; a listing is the smaller request to a server in trouble.
    """
    if error.reason == "NonFastForward":
        return await _fetch_tip(attempt, _DEPTHS[0])
    listing = await ls_remote.list_refs(attempt.git, attempt.remote, attempt.credentials)
    return listing.refs.get(attempt.ref)


async def _fetch_tip(attempt: _Attempt, depth: int) -> str | None:
    try:
        return await attempt.store.fetch(
            attempt.git, attempt.remote, attempt.credentials, attempt.ref, depth=depth
        )
    except GitError as error:
        if error.reason == "RefNotFound":
            return None
        raise


def _outcome_unmoved(error: GitError) -> Rejected | Transient:
    """Rejected or Transient: the only decision that is made by the text of the error."""
    if error.reason == "Corrupt":
        raise StoreCorrupt(error.message) from error
    if error.reason in _LOCAL_FAULTS:
        raise error
    message = _server_message(error)
    return Rejected(message) if error.reason in _REFUSALS else Transient(message)


async def _outcome_moved(attempt: _Attempt, tip: str) -> Pushed | Raced | Rewound | Absent:
    """Fetch deeper until the new tip is known to descend from our commit or from `expected`."""
    for depth in _DEPTHS:
        if depth > _DEPTHS[0] or not await asyncio.to_thread(attempt.store.has, tip):
            fetched = await _fetch_tip(attempt, depth)
            if fetched is None:
                return Absent()
            tip = fetched
        if await asyncio.to_thread(attempt.store.contains, tip, attempt.commit):
            return Pushed(already=True, tip=tip)
        base = attempt.expected
        if base is None or await asyncio.to_thread(attempt.store.contains, tip, base):
            return Raced(tip)
        if await asyncio.to_thread(attempt.store.is_complete, tip):
            break
    return Rewound(tip)


def _server_message(error: GitError) -> str:
    """The text of the server and the result of git, on one line and redacted."""
    verdicts = [
        line.split("\t")[-1]
        for line in error.stdout.decode("utf-8", "replace").splitlines()
        if line.startswith("!")
    ]
    text = "; ".join([*verdicts, error.message])
    return redaction.process.clean(failures.readable_stderr(text))
