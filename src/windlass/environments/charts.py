"""From the files of a chart to what helm makes of them.

What decides is what goes in: files, values, names. The same of these is rendered once for
an Environment, also across restarts (`kept_charts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.api.project_source import Template
from windlass.environments import chosen_files
from windlass.environments.decide import helm_values
from windlass.environments.decide.bundle import Place
from windlass.environments.helm import Release
from windlass.environments.kept_charts import KeptCharts
from windlass.environments.offers import Offers

_NOT_KEPT = (
    "what the chart makes is too large to be kept; if it draws values by lot, they are drawn anew "
    "when the operator starts again"
)


class Renderer(Protocol):
    """The part of `helm.Helm` that is used here."""

    async def template(
        self, chart: Mapping[str, bytes], values: Sequence[bytes], release: Release
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a template becomes objects: itself, the values of both objects, the release's name."""

    template: Template
    values: tuple[bytes, ...]
    release: str


@dataclass(frozen=True, slots=True)
class Output:
    """What helm printed, and the hash of what it was made from."""

    inputs: str
    text: bytes


class Charts:
    """The charts of all Environments."""

    def __init__(self, helm: Renderer, offers: Offers, kept: KeptCharts) -> None:
        self._helm = helm
        self._offers = offers
        self._kept = kept

    async def output(
        self, recipe: Recipe, tree: str, contents: Mapping[str, bytes], place: Place
    ) -> Output:
        """What helm makes of the files; `tree` stands for all of them."""
        inputs = helm_values.inputs(
            tree,
            recipe.template.path,
            recipe.template.values_files or (),
            recipe.values,
            (recipe.release, place.namespace),
        )
        known = await self._kept.get(place.namespace, place.marks, inputs)
        if known is None:
            known = await self._rendered(recipe, contents, place.namespace)
        return Output(inputs, known)

    async def keep(self, output: Output, place: Place) -> tuple[str, ...]:
        """Keep what is about to be applied; what there is to say about that."""
        is_kept = await self._kept.keep(place.namespace, place.marks, output.inputs, output.text)
        return () if is_kept else (_NOT_KEPT,)

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._kept.forget(place)

    async def _rendered(self, recipe: Recipe, contents: Mapping[str, bytes], place: str) -> bytes:
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
