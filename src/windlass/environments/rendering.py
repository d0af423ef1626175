"""From a settled commit to the bundle that is applied.

The same commit in the same place under the same template is not rendered twice; what was
rendered last is kept for as long as its Environment is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.base.clock import Clock
from windlass.environments.acceptance import Subject
from windlass.environments.decide import bundle as bundles
from windlass.environments.decide import manifests, wish
from windlass.environments.decide.bundle import Bundle, BundleRefused, Place
from windlass.environments.decide.manifests import RenderRefused
from windlass.environments.decide.report import Source
from windlass.environments.decide.wish import WishRefused
from windlass.environments.measures import Measures
from windlass.environments.source import Sources
from windlass.objects.key import Key

REFUSALS = (WishRefused, RenderRefused, BundleRefused)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A bundle, and what it was made from."""

    inputs: tuple[object, ...]
    bundle: Bundle


class Rendering:
    """The bundles of all Environments."""

    def __init__(self, sources: Sources, measures: Measures, clock: Clock) -> None:
        self._sources = sources
        self._measures = measures
        self._clock = clock
        self._rendered: dict[Key, _Rendered] = {}

    async def bundle(self, subject: Subject, settled: tuple[Source, ...], place: Place) -> Bundle:
        """The bundle of a commit; one of REFUSALS says why there is none."""
        try:
            return await self._bundle(subject, settled, place)
        except REFUSALS as error:
            self._measures.render_rejected(error.reason)
            raise

    def forget(self, key: Key) -> None:
        """The Environment is gone."""
        self._rendered.pop(key, None)

    async def _bundle(self, subject: Subject, settled: tuple[Source, ...], place: Place) -> Bundle:
        template = wish.template(subject.project, subject.environment)
        name = wish.template_source(subject.project, template)
        source = next(one for one in settled if one.name == name)
        inputs = (source.commit, template, place)
        known = self._rendered.get(subject.key)
        if known is not None and known.inputs == inputs:
            return known.bundle
        began = self._clock.monotonic()
        wishes = wish.sources(subject.project, subject.environment)
        wanted = next(one for one in wishes if one.name == name)
        files = await self._sources.files(
            subject.project.metadata.namespace, wanted, source, template.path
        )
        made = bundles.assembled(manifests.objects(files), place)
        self._rendered[subject.key] = _Rendered(inputs, made)
        self._measures.rendered(self._clock.monotonic() - began)
        return made
