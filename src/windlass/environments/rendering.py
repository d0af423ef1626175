"""From a settled commit to the bundle that is applied.

What decides is what is read: the files that the template needs, the template, the values,
the place. The same of these is not rendered twice, in whatever commit it stands, and what
was refused is refused again without a look. What was rendered last is kept for as long as
its Environment is there. Reading YAML keeps a processor busy, so it is done off the event
loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from windlass.base.clock import Clock
from windlass.environments import chosen_files, departures
from windlass.environments.acceptance import Subject
from windlass.environments.charts import Charts, Recipe
from windlass.environments.decide import bundle as bundles
from windlass.environments.decide import chart_crds, helm_values, manifests, wish
from windlass.environments.decide import charts as chart_objects
from windlass.environments.decide.bundle import Bundle, BundleRefused, Place
from windlass.environments.decide.manifests import RenderRefused
from windlass.environments.decide.report import Source
from windlass.environments.decide.wish import WishRefused
from windlass.environments.measures import Measures
from windlass.environments.source import Choice, Files, Sources
from windlass.objects.names import Key

REFUSALS = (WishRefused, RenderRefused, BundleRefused)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """What came of some files, and what it was made from."""

    commit: str
    recipe: Recipe
    place: Place
    tree: str
    result: Bundle | RenderRefused | BundleRefused

    def bundle(self) -> Bundle:
        if isinstance(self.result, Bundle):
            return self.result
        raise self.result.with_traceback(None)


class Rendering:
    """The bundles of all Environments."""

    def __init__(self, sources: Sources, charts: Charts, measures: Measures, clock: Clock) -> None:
        self._sources = sources
        self._charts = charts
        self._measures = measures
        self._clock = clock
        self._rendered: dict[Key, _Rendered] = {}

    async def bundle(self, subject: Subject, settled: tuple[Source, ...], place: Place) -> Bundle:
        """The bundle of a commit; one of REFUSALS says why there is none."""
        recipe = _recipe(subject)
        name = wish.template_source(subject.project, recipe.template)
        source = next(one for one in settled if one.name == name)
        known = self._rendered.get(subject.key)
        if known is not None and (known.recipe, known.place) != (recipe, place):
            known = None
        if known is None or known.commit != source.commit:
            known = await self._looked_at(subject, source, known, recipe, place)
            self._rendered[subject.key] = known
        return known.bundle()

    def forget(self, key: Key) -> None:
        """The Environment is gone, or what was refused shall be looked at again."""
        self._rendered.pop(key, None)

    def leave(self, place: str) -> None:
        """The namespace is gone."""
        self._charts.forget(place)

    async def _looked_at(
        self,
        subject: Subject,
        source: Source,
        known: _Rendered | None,
        recipe: Recipe,
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
                _choice(recipe),
                known=known.tree if known is not None else "",
            )
        except RenderRefused as error:
            self._measures.render_rejected(error.reason)
            raise
        if files.contents is None and known is not None:
            return replace(known, commit=source.commit)
        result = await self._made(recipe, files, place)
        if isinstance(result, Bundle):
            self._measures.rendered(self._clock.monotonic() - began, recipe.template.type)
        else:
            self._measures.render_rejected(result.reason)
        return _Rendered(source.commit, recipe, place, files.tree, result)

    async def _made(
        self, recipe: Recipe, files: Files, place: Place
    ) -> Bundle | RenderRefused | BundleRefused:
        contents = files.contents or {}
        try:
            if recipe.template.type == "manifest":
                return await asyncio.to_thread(_of_manifests, contents, place)
            output = await self._charts.output(recipe, files.tree, contents, place)
            bundle = await asyncio.to_thread(
                _of_chart, output.text, place, recipe.template.path, contents
            )
            # Not sooner: what is refused must not take the place of what runs.
            notes = await self._charts.keep(output, place)
            return replace(bundle, notes=(*bundle.notes, *notes))
        except (RenderRefused, BundleRefused) as error:
            return error


def _recipe(subject: Subject) -> Recipe:
    template = wish.template(subject.project, subject.environment)
    values = helm_values.of(template, subject.environment)
    return Recipe(
        template, values, helm_values.release_name(departures.identity_of(subject.object))
    )


def _choice(recipe: Recipe) -> Choice:
    template = recipe.template
    if template.type == "manifest":
        exclude = template.exclude or ()
        return lambda listing: chosen_files.manifests_at(listing, template.path, exclude)
    named = template.values_files or ()
    return lambda listing: chosen_files.chart_at(listing, template.path, named)


def _of_manifests(contents: dict[str, bytes], place: Place) -> Bundle:
    found = manifests.read(contents)
    skipped = (f"{name} (not a Kubernetes object)" for name in found.skipped)
    return bundles.assembled(found.objects, place, left_out=skipped)


def _of_chart(output: bytes, place: Place, path: str, contents: dict[str, bytes]) -> Bundle:
    chart, below = chart_objects.read(output), chosen_files.folder(path)
    inside = {name[len(below) :]: file for name, file in contents.items() if name.startswith(below)}
    left_out = (*chart.left_out, *chart_crds.left_out(inside))
    return bundles.assembled(chart.manifests, place, left_out=left_out)
