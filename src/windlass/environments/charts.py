"""From the files of a chart to its objects as text.

What decides is what goes in: files, values, names. With the same of these the kept output is
used, also across restarts (`kept_charts`). With others helm renders twice, and what differs
between the two takes its values from the kept output (`decide.generated_values`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.api.kinds.project_sources import Template
from windlass.environments import chosen_files
from windlass.environments.decide import generated_values, helm_values
from windlass.environments.decide.bundle import Place
from windlass.environments.decide.helm_words import Release
from windlass.environments.kept_charts import KeptCharts, Output
from windlass.environments.offers import Offers

_NOT_KEPT = (
    "the rendered chart is too large to be kept in a Secret; values that it generates change when "
    "the operator restarts; make the chart smaller, or set fixed values"
)


class Renderer(Protocol):
    """The part of `helm.Helm` that is used here."""

    async def template(
        self, chart: Mapping[str, bytes], values: Sequence[bytes], release: Release
    ) -> tuple[bytes, bytes]: ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a template becomes objects: itself, the values of both objects, the release's name."""

    template: Template
    values: tuple[bytes, ...]
    release: str


class Charts:
    """The charts of all Environments."""

    def __init__(self, helm: Renderer, offers: Offers, kept: KeptCharts) -> None:
        self._helm = helm
        self._offers = offers
        self._kept = kept

    async def output(
        self, recipe: Recipe, tree: str, contents: Mapping[str, bytes], place: Place
    ) -> Output:
        """The objects of a chart; `tree` stands for all of its files."""
        inputs = helm_values.inputs(
            tree,
            recipe.template.path,
            recipe.template.values_files or (),
            recipe.values,
            (recipe.release, place.namespace),
        )
        kept = await self._kept.get(place.namespace, place.marks)
        if kept is not None and kept.inputs == inputs:
            return kept
        first, second = await self._rendered(recipe, contents, place.namespace)
        last = kept.text if kept is not None else b""
        settled = await asyncio.to_thread(generated_values.settle, first, second, last)
        return Output(inputs, settled.output, settled.notes)

    async def keep(self, output: Output, place: Place) -> tuple[str, ...]:
        """Keep what is about to be applied; what there is to say about that."""
        is_kept = await self._kept.keep(place.namespace, place.marks, output)
        return output.notes if is_kept else (*output.notes, _NOT_KEPT)

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._kept.forget(place)

    async def _rendered(
        self, recipe: Recipe, contents: Mapping[str, bytes], place: str
    ) -> tuple[bytes, bytes]:
        offer = await self._offers.get()
        below = chosen_files.folder(recipe.template.path)
        files = {
            name[len(below) :]: content
            for name, content in contents.items()
            if name.startswith(below)
        }
        named = tuple(contents[name] for name in recipe.template.values_files or ())
        release = Release(recipe.release, place, offer.kube_version, offer.api_versions)
        return await self._helm.template(files, (*named, *recipe.values), release)
