"""From a settled commit to the bundle that is applied.

What decides is what is read: the files at the template's path, the template, the place. The
same of these is not rendered twice, in whatever commit it stands, and what was refused is
refused again without a look. What was rendered last is kept for as long as its Environment
is there. Reading YAML keeps a processor busy, so it is done off the event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from windlass.api.project_source import Template
from windlass.base.clock import Clock
from windlass.environments.acceptance import Subject
from windlass.environments.decide import bundle as bundles
from windlass.environments.decide import manifests, wish
from windlass.environments.decide.bundle import Bundle, BundleRefused, Place
from windlass.environments.decide.manifests import RenderRefused
from windlass.environments.decide.report import Source
from windlass.environments.decide.wish import WishRefused
from windlass.environments.measures import Measures
from windlass.environments.source import Files, Sources
from windlass.objects.key import Key

REFUSALS = (WishRefused, RenderRefused, BundleRefused)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """What came of some files, and what it was made from."""

    commit: str
    template: Template
    place: Place
    tree: str
    result: Bundle | RenderRefused | BundleRefused

    def bundle(self) -> Bundle:
        if isinstance(self.result, Bundle):
            return self.result
        raise self.result.with_traceback(None)


class Rendering:
    """The bundles of all Environments."""

    def __init__(self, sources: Sources, measures: Measures, clock: Clock) -> None:
        self._sources = sources
        self._measures = measures
        self._clock = clock
        self._rendered: dict[Key, _Rendered] = {}

    async def bundle(self, subject: Subject, settled: tuple[Source, ...], place: Place) -> Bundle:
        """The bundle of a commit; one of REFUSALS says why there is none."""
        template = wish.template(subject.project, subject.environment)
        name = wish.template_source(subject.project, template)
        source = next(one for one in settled if one.name == name)
        known = self._rendered.get(subject.key)
        if known is not None and (known.template, known.place) != (template, place):
            known = None
        if known is None or known.commit != source.commit:
            known = await self._looked_at(subject, source, known, template, place)
            self._rendered[subject.key] = known
        return known.bundle()

    def forget(self, key: Key) -> None:
        """The Environment is gone."""
        self._rendered.pop(key, None)

    async def _looked_at(
        self,
        subject: Subject,
        source: Source,
        known: _Rendered | None,
        template: Template,
        place: Place,
    ) -> _Rendered:
        began = self._clock.monotonic()
        wishes = wish.sources(subject.project, subject.environment)
        wanted = next(one for one in wishes if one.name == source.name)
        try:
            files = await self._sources.files(
                subject.project.metadata.namespace,
                wanted,
                source,
                template.path,
                known=known.tree if known is not None else "",
            )
        except RenderRefused as error:
            self._measures.render_rejected(error.reason)
            raise
        if files.contents is None and known is not None:
            return replace(known, commit=source.commit)
        result = await asyncio.to_thread(_made, files, place)
        if isinstance(result, Bundle):
            self._measures.rendered(self._clock.monotonic() - began)
        else:
            self._measures.render_rejected(result.reason)
        return _Rendered(source.commit, template, place, files.tree, result)


def _made(files: Files, place: Place) -> Bundle | RenderRefused | BundleRefused:
    try:
        return bundles.assembled(manifests.objects(files.contents or {}), place)
    except (RenderRefused, BundleRefused) as error:
        return error
