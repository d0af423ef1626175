"""Builds the new file contents of one sync, one file at a time.

A blob is read, checked, rendered, checked again and staged before the next one is read, so memory
does not grow with the repository. Large plain copies are streamed in pieces and are never in memory
as a whole: a `ContentPipe` passes them from one thread to another, and the writer waits for the
reader. When either side aborts, the other one ends with `PipeBroken`. If the hash of the file on
the disk is known, the new content is hashed first and staged only if it differs.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from windlass.base.tasks import run_in_thread
from windlass.gateways.agent.interrupt import Interrupt
from windlass.gateways.render import content_checks, file_renderer
from windlass.gateways.render.file_renderer import RenderRecipe, RenderResult
from windlass.gateways.tree import file_policy
from windlass.gateways.tree.changes import Changes, RenderedDigest
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.layout import Layout, LayoutFile
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.git.commit_store import CommitStore

_MAX_PIECES = 8
_CHECK_SECONDS = 0.2


class PipeBroken(Exception):
    """The other side of a `ContentPipe` has aborted."""


class ContentPipe:
    """A bounded pipe for the pieces of one content, between two threads."""

    def __init__(self) -> None:
        # In order; None is the end.
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_MAX_PIECES)
        self._broken = threading.Event()

    def put(self, piece: bytes) -> None:
        """Pass a piece on; blocks while the reader is behind."""
        self._put(piece)

    def end(self) -> None:
        """Mark the end of the content."""
        self._put(None)

    def abort(self) -> None:
        """Make the other side end with `PipeBroken`."""
        self._broken.set()

    def pieces(self) -> Iterator[bytes]:
        """All pieces, in order."""
        while True:
            try:
                piece = self._pieces.get(timeout=_CHECK_SECONDS)
            except queue.Empty:
                self._check()
                continue
            if piece is None:
                return
            yield piece

    def _put(self, piece: bytes | None) -> None:
        while True:
            self._check()
            try:
                self._pieces.put(piece, timeout=_CHECK_SECONDS)
            except queue.Full:
                continue
            return

    def _check(self) -> None:
        if self._broken.is_set():
            raise PipeBroken


T = TypeVar("T")


class HashedContent(Protocol):
    """Hash and size of a content that a sink has consumed."""

    @property
    def sha256(self) -> str: ...

    @property
    def size(self) -> int: ...


class ContentSink(Protocol):
    """Consumer of new contents; each is passed once, as a whole or in pieces."""

    def stage(self, path: str, content: bytes | Iterable[bytes]) -> HashedContent: ...


@dataclass(frozen=True, slots=True)
class DiscardedContent:
    """Hash and size of a content that was not kept."""

    sha256: str
    size: int


class DiscardingSink:
    """A sink that hashes and keeps nothing: for dry runs and for comparisons."""

    def stage(self, path: str, content: bytes | Iterable[bytes]) -> DiscardedContent:
        del path
        digest, size = hashlib.sha256(), 0
        for part in (content,) if isinstance(content, bytes) else content:
            digest.update(part)
            size += len(part)
        return DiscardedContent(digest.hexdigest(), size)


class ContentBuilder:
    """Builds the contents of one sync into a sink."""

    def __init__(
        self,
        store: CommitStore,
        layout: Layout,
        sink: ContentSink,
        caps: Caps,
        interrupt: Interrupt,
    ) -> None:
        self._store = store
        self._layout = layout
        self._sink = sink
        self._discarding_sink = DiscardingSink()
        self._caps = caps
        self._interrupt = interrupt
        # Hash, size and facts of every content that was built, by path; grows with each `build`.
        self.rendered: dict[str, RenderedDigest] = {}

    async def build(self, changes: Changes) -> None:
        """Build every file of `changes.render` that was not built yet."""
        due = [self._layout.files[path] for path in changes.render if path not in self.rendered]
        if not due:
            return
        await self._interrupt.run(self._store.need(file.blob for file in due))
        whole, streamed = await run_in_thread(self._split_by_size, due, changes)
        await run_in_thread(self._build_whole, whole, changes)
        for file in streamed:
            self._interrupt.check()
            self.rendered[file.path] = await self._build_streamed(file, changes)

    def _split_by_size(
        self, due: Sequence[LayoutFile], changes: Changes
    ) -> tuple[list[LayoutFile], list[LayoutFile]]:
        """The files to read as a whole and the files to stream, after a check of all sizes."""
        sizes = {file.path: self._store.size(file.blob) for file in due}
        kept = {path: entry.size for path, entry in changes.kept.items()}
        file_policy.check_sizes(kept | sizes, self._caps)
        large = [file for file in due if self._is_streamed(file, changes)]
        large_paths = {file.path for file in large}
        return [file for file in due if file.path not in large_paths], large

    def _is_streamed(self, file: LayoutFile, changes: Changes) -> bool:
        recipe, _ = changes.recipe(file)
        # Only a plain copy needs no look at the whole content; JSON is checked as a whole.
        copies = recipe is None or recipe.for_path(file.path).is_plain_copy
        is_json = file.path.endswith(".json")
        return copies and not is_json and self._store.is_large(file.blob)

    def _build_whole(self, due: Sequence[LayoutFile], changes: Changes) -> None:
        for file in due:
            self._interrupt.check()
            content = self._store.read(file.blob)
            file_policy.check_content(file.path, content)
            recipe, _ = changes.recipe(file)
            result = file_renderer.render_file(content, file.path, recipe or RenderRecipe())
            about = content_checks.content_facts(
                file.path, result.content, _check_rendered(file.path, result)
            )
            staged = self._stage(file.path, result.content, changes)
            self.rendered[file.path] = RenderedDigest(
                staged.sha256, staged.size, result.transforms, result.system_names > 0, about
            )

    def _stage(self, path: str, content: bytes, changes: Changes) -> HashedContent:
        on_disk = _sha256_on_disk(path, changes)
        if on_disk is not None:
            hashed = self._discarding_sink.stage(path, content)
            if hashed.sha256 == on_disk:
                return hashed
        return self._sink.stage(path, content)

    async def _build_streamed(self, file: LayoutFile, changes: Changes) -> RenderedDigest:
        on_disk = _sha256_on_disk(file.path, changes)
        if on_disk is not None:
            hashed = await self._stream_to(file, self._discarding_sink)
            if hashed.sha256 == on_disk:
                return RenderedDigest(hashed.sha256, hashed.size)
        staged = await self._stream_to(file, self._sink)
        return RenderedDigest(staged.sha256, staged.size)

    async def _stream_to(self, file: LayoutFile, sink: ContentSink) -> HashedContent:
        def consume(pieces: Iterator[bytes]) -> HashedContent:
            return sink.stage(file.path, _check_pieces(file.path, pieces))

        return await stream_blob(self._store, file.blob, consume)


async def stream_blob(store: CommitStore, blob: str, consume: Callable[[Iterator[bytes]], T]) -> T:
    """The result of `consume` over the pieces of a blob; raises if the blob is corrupt."""
    pipe = ContentPipe()
    consuming = asyncio.ensure_future(asyncio.to_thread(_consume, pipe, consume))
    try:
        await store.stream(blob, pipe.put)
        await asyncio.to_thread(pipe.end)
    except PipeBroken:
        # The reader's own error is more precise, and is raised below.
        await asyncio.wait({consuming})
    except BaseException:
        pipe.abort()
        await asyncio.wait({consuming})
        # Retrieved, so that asyncio does not warn about an error that is never read.
        consuming.exception()
        raise
    return await consuming


def _consume(pipe: ContentPipe, consume: Callable[[Iterator[bytes]], T]) -> T:
    try:
        return consume(pipe.pieces())
    finally:
        pipe.abort()


def _check_rendered(path: str, result: RenderResult) -> tuple[str, ...]:
    """The warnings about one content; raises `SyncRefused` if it must not reach a gateway."""
    findings = content_checks.check_content(path, result.content)
    for finding in findings:
        if finding.level == "error":
            raise SyncRefused(finding.reason, path, str(finding))
    return (*result.warnings, *map(str, findings))


def _check_pieces(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces; the first one is checked, because a Git LFS pointer is at the start."""
    is_first = True
    for piece in pieces:
        if is_first:
            file_policy.check_content(path, piece)
            is_first = False
        yield piece


def _sha256_on_disk(path: str, changes: Changes) -> str | None:
    """The hash of the live file if the new content may be equal to it; else None."""
    if changes.causes.get(path) == "content":
        return None
    return changes.comparison.live_sha256(path)
