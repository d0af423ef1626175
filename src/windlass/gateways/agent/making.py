"""Makes the new contents of one sync, one after the other.

A blob is read, checked, rendered, checked again and handed on before the next one is
read, so memory does not grow with the repository. Large plain copies go by in pieces and
are never in memory at all. Where the disk is known to hold a file already, its content is
weighed first and handed on only if it differs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from windlass.base.tasks import run_in_thread
from windlass.gateways.agent.interrupt import Interrupt
from windlass.gateways.agent.pipe import BrokenPipe, Pipe
from windlass.gateways.decide import policing, rendering, validation
from windlass.gateways.decide.changes import Changes, Digest
from windlass.gateways.decide.layout import Layout, Wanted
from windlass.gateways.decide.policing import Caps
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.rendering import Recipe, Rendered
from windlass.git.commit_store import CommitStore

T = TypeVar("T")


class Weight(Protocol):
    """What is known of a content once it has gone by."""

    @property
    def sha256(self) -> str: ...

    @property
    def size(self) -> int: ...


class Sink(Protocol):
    """Where new contents go; they come once, whole or in pieces."""

    def stage(self, path: str, content: bytes | Iterable[bytes]) -> Weight: ...


@dataclass(frozen=True, slots=True)
class Weighed:
    """A content that went by and was not kept."""

    sha256: str
    size: int


class Scales:
    """A sink that keeps nothing: for plans that are only looked at."""

    def stage(self, path: str, content: bytes | Iterable[bytes]) -> Weighed:
        del path
        digest, size = hashlib.sha256(), 0
        for part in (content,) if isinstance(content, bytes) else content:
            digest.update(part)
            size += len(part)
        return Weighed(digest.hexdigest(), size)


class Making:
    """The contents of one sync; `rendered` fills with what was made."""

    def __init__(
        self,
        store: CommitStore,
        layout: Layout,
        sink: Sink,
        caps: Caps,
        interrupt: Interrupt,
    ) -> None:
        self._store = store
        self._layout = layout
        self._sink = sink
        self._scales = Scales()
        self._caps = caps
        self._interrupt = interrupt
        self.rendered: dict[str, Digest] = {}

    async def make(self, changes: Changes) -> None:
        """Make all of `changes.render` that is not made yet."""
        due = [self._layout.files[path] for path in changes.render if path not in self.rendered]
        if not due:
            return
        await self._interrupt.around(self._store.need(wanted.blob for wanted in due))
        whole, in_pieces = await run_in_thread(self._sorted, due, changes)
        await run_in_thread(self._make_whole, whole, changes)
        for wanted in in_pieces:
            self._interrupt.check()
            self.rendered[wanted.path] = await self._poured(wanted, changes)

    def _sorted(self, due: Sequence[Wanted], changes: Changes) -> tuple[list[Wanted], list[Wanted]]:
        """Those to read as a whole and those to pass on in pieces, after a look at all sizes."""
        sizes = {wanted.path: self._store.size(wanted.blob) for wanted in due}
        kept = {path: entry.size for path, entry in changes.kept.items()}
        policing.check_sizes(kept | sizes, self._caps)
        large = [wanted for wanted in due if self._goes_in_pieces(wanted, changes)]
        names = {wanted.path for wanted in large}
        return [wanted for wanted in due if wanted.path not in names], large

    def _goes_in_pieces(self, wanted: Wanted, changes: Changes) -> bool:
        recipe, _ = changes.recipe(wanted)
        copies = recipe is None or recipe.for_path(wanted.path).copies
        is_json = wanted.path.endswith(".json")
        return copies and not is_json and self._store.is_large(wanted.blob)

    def _make_whole(self, due: Sequence[Wanted], changes: Changes) -> None:
        for wanted in due:
            self._interrupt.check()
            content = self._store.read(wanted.blob)
            policing.check_content(wanted.path, content)
            recipe, _ = changes.recipe(wanted)
            made = rendering.render(content, wanted.path, recipe or Recipe())
            about = validation.about(wanted.path, made.content, _warnings(wanted.path, made))
            weight = self._handed_on(wanted.path, made.content, changes)
            self.rendered[wanted.path] = Digest(
                weight.sha256, weight.size, made.transforms, made.system_names > 0, about
            )

    def _handed_on(self, path: str, content: bytes, changes: Changes) -> Weight:
        there = _known_on_disk(path, changes)
        if there is not None:
            weighed = self._scales.stage(path, content)
            if weighed.sha256 == there:
                return weighed
        return self._sink.stage(path, content)

    async def _poured(self, wanted: Wanted, changes: Changes) -> Digest:
        there = _known_on_disk(wanted.path, changes)
        if there is not None:
            weighed = await self._through(wanted, self._scales)
            if weighed.sha256 == there:
                return Digest(weighed.sha256, weighed.size)
        staged = await self._through(wanted, self._sink)
        return Digest(staged.sha256, staged.size)

    async def _through(self, wanted: Wanted, sink: Sink) -> Weight:
        def consume(pieces: Iterator[bytes]) -> Weight:
            return sink.stage(wanted.path, _checked(wanted.path, pieces))

        return await poured(self._store, wanted.blob, consume)


async def poured(store: CommitStore, blob: str, consume: Callable[[Iterator[bytes]], T]) -> T:
    """What `consume` makes of the pieces of a blob; it counts only if the blob was sound."""
    pipe = Pipe()
    consuming = asyncio.ensure_future(asyncio.to_thread(_consumed, pipe, consume))
    try:
        await store.stream(blob, pipe.put)
        await asyncio.to_thread(pipe.end)
    except BrokenPipe:
        # The reader's own error says more, and is raised below.
        await asyncio.wait({consuming})
    except BaseException:
        pipe.break_off()
        await asyncio.wait({consuming})
        consuming.exception()
        raise
    return await consuming


def _consumed(pipe: Pipe, consume: Callable[[Iterator[bytes]], T]) -> T:
    try:
        return consume(pipe.pieces())
    finally:
        pipe.break_off()


def _warnings(path: str, made: Rendered) -> tuple[str, ...]:
    """What is doubtful about one content; `Refused` where it must not reach a gateway."""
    found = validation.check(path, made.content)
    for finding in found:
        if finding.level == "error":
            raise Refused(finding.reason, path, str(finding))
    return (*made.warnings, *map(str, found))


def _checked(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    is_first = True
    for piece in pieces:
        if is_first:
            policing.check_content(path, piece)
            is_first = False
        yield piece


def _known_on_disk(path: str, changes: Changes) -> str | None:
    """The digest of the file that is there, where the new content may turn out to be equal."""
    if changes.causes.get(path) == "content":
        return None
    return changes.compared.live_sha256(path)
