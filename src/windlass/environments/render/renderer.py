"""Renders a resolved commit into the bundle that is applied.

    files ─▶ manifests, or helm twice ─▶ generated values settled ─▶ bundle

`BundleRenderer` decides whether to render at all. Its inputs are what is read: the files that the
template needs, the template, the values, the target. The same inputs are not rendered twice, in
whatever commit they are, and what was refused is refused again without a new attempt. The last
result is kept for as long as its Environment exists. Parsing YAML keeps a processor busy, so it
runs off the event loop.

`ChartRenderer` turns the files of a chart into objects as text. With the same inputs the stored
output is used, also across restarts (`output_store`). With others helm renders twice, and what
differs between the two takes its values from the stored output (`generated_values`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from windlass.api.kinds.project_sources import Template
from windlass.base.clock import Clock
from windlass.environments import deletion, spec
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle.bundle import Bundle, BundleRefused, BundleTarget
from windlass.environments.metrics import ReconcileMetrics
from windlass.environments.preconditions import EnvironmentContext
from windlass.environments.render import generated_values, helm_command, manifests
from windlass.environments.render.api_capabilities import CapabilitiesCache
from windlass.environments.render.helm_command import Release
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.output_store import ChartOutput, OutputStore
from windlass.environments.source import template_files
from windlass.environments.source.commits import FileSelector, SourceFiles, SourceRepositories
from windlass.environments.spec import SpecRefused
from windlass.environments.status import SourceCommit
from windlass.objects.names import Key

_NOT_STORED = (
    "the rendered chart is too large to be kept in a Secret; values that it generates change when "
    "the operator restarts; make the chart smaller, or set fixed values"
)


class HelmRenderer(Protocol):
    """The part of `helm.Helm` that is used here."""

    async def template(
        self, chart: Mapping[str, bytes], values: Sequence[bytes], release: Release
    ) -> tuple[bytes, bytes]: ...


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """How a template becomes objects: itself, the values of both objects, the release's name."""

    template: Template
    values: tuple[bytes, ...]
    release: str


class ChartRenderer:
    """The charts of all Environments."""

    def __init__(self, helm: HelmRenderer, offers: CapabilitiesCache, kept: OutputStore) -> None:
        self._helm = helm
        self._capabilities = offers
        self._outputs = kept

    async def render(
        self, recipe: RenderRequest, tree: str, contents: Mapping[str, bytes], place: BundleTarget
    ) -> ChartOutput:
        """The objects of a chart; `tree` stands for all of its files."""
        inputs = helm_command.inputs_digest(
            tree,
            recipe.template.path,
            recipe.template.values_files or (),
            recipe.values,
            (recipe.release, place.namespace),
        )
        kept = await self._outputs.get(place.namespace, place.owner)
        if kept is not None and kept.inputs == inputs:
            return kept
        first, second = await self._run_helm(recipe, contents, place.namespace)
        last = kept.text if kept is not None else b""
        settled = await asyncio.to_thread(generated_values.stabilize, first, second, last)
        return ChartOutput(inputs, settled.output, settled.notes)

    async def store(self, output: ChartOutput, place: BundleTarget) -> tuple[str, ...]:
        """Keep what is about to be applied; what there is to say about that."""
        is_kept = await self._outputs.store(place.namespace, place.owner, output)
        return output.notes if is_kept else (*output.notes, _NOT_STORED)

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._outputs.forget(place)

    async def _run_helm(
        self, recipe: RenderRequest, contents: Mapping[str, bytes], place: str
    ) -> tuple[bytes, bytes]:
        offer = await self._capabilities.get()
        below = template_files.directory_prefix(recipe.template.path)
        files = {
            name[len(below) :]: content
            for name, content in contents.items()
            if name.startswith(below)
        }
        named = tuple(contents[name] for name in recipe.template.values_files or ())
        release = Release(recipe.release, place, offer.kube_version, offer.api_versions)
        return await self._helm.template(files, (*named, *recipe.values), release)


REFUSALS = (SpecRefused, RenderRefused, BundleRefused)


@dataclass(frozen=True, slots=True)
class _RenderedBundle:
    """What came of some files, and what it was made from."""

    commit: str
    request: RenderRequest
    target: BundleTarget
    tree: str
    result: Bundle | RenderRefused | BundleRefused

    def bundle(self) -> Bundle:
        if isinstance(self.result, Bundle):
            return self.result
        raise self.result.with_traceback(None)


class BundleRenderer:
    """The bundles of all Environments."""

    def __init__(
        self,
        sources: SourceRepositories,
        charts: ChartRenderer,
        measures: ReconcileMetrics,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._charts = charts
        self._metrics = measures
        self._clock = clock
        self._rendered: dict[Key, _RenderedBundle] = {}

    async def render(
        self, subject: EnvironmentContext, settled: tuple[SourceCommit, ...], place: BundleTarget
    ) -> Bundle:
        """The bundle of a commit; one of REFUSALS says why there is none."""
        recipe = _render_request(subject)
        name = spec.template_source_name(subject.project, recipe.template)
        source = next(one for one in settled if one.name == name)
        known = self._rendered.get(subject.key)
        if known is not None and (known.request, known.target) != (recipe, place):
            known = None
        if known is None or known.commit != source.commit:
            known = await self._render_commit(subject, source, known, recipe, place)
            self._rendered[subject.key] = known
        return known.bundle()

    def forget(self, key: Key) -> None:
        """The Environment is gone, or what was refused shall be looked at again."""
        self._rendered.pop(key, None)

    def forget_namespace(self, place: str) -> None:
        """The namespace is gone."""
        self._charts.forget(place)

    async def _render_commit(
        self,
        subject: EnvironmentContext,
        source: SourceCommit,
        known: _RenderedBundle | None,
        recipe: RenderRequest,
        place: BundleTarget,
    ) -> _RenderedBundle:
        began = self._clock.monotonic()
        wishes = spec.desired_sources(subject.project, subject.environment)
        wanted = next(one for one in wishes if one.name == source.name)
        try:
            files = await self._sources.read_files(
                subject.project.metadata.namespace,
                wanted,
                source,
                _file_selector(recipe),
                known=known.tree if known is not None else "",
            )
        except RenderRefused as error:
            self._metrics.record_render_rejection(error.reason)
            raise
        if files.contents is None and known is not None:
            return replace(known, commit=source.commit)
        result = await self._build(recipe, files, place)
        if isinstance(result, Bundle):
            self._metrics.record_render(self._clock.monotonic() - began, recipe.template.type)
        else:
            self._metrics.record_render_rejection(result.reason)
        return _RenderedBundle(source.commit, recipe, place, files.tree, result)

    async def _build(
        self, recipe: RenderRequest, files: SourceFiles, place: BundleTarget
    ) -> Bundle | RenderRefused | BundleRefused:
        contents = files.contents or {}
        try:
            if recipe.template.type == "manifest":
                return await asyncio.to_thread(_bundle_from_manifests, contents, place)
            output = await self._charts.render(recipe, files.tree, contents, place)
            bundle = await asyncio.to_thread(
                _bundle_from_chart, output.text, place, recipe.template.path, contents
            )
            # Not sooner: what is refused must not take the place of what runs.
            notes = await self._charts.store(output, place)
            return replace(bundle, notes=(*bundle.notes, *notes))
        except (RenderRefused, BundleRefused) as error:
            return error


def _render_request(subject: EnvironmentContext) -> RenderRequest:
    template = spec.select_template(subject.project, subject.environment)
    values = helm_command.encode_values(template, subject.environment)
    return RenderRequest(
        template, values, helm_command.release_name(deletion.environment_identity(subject.object))
    )


def _file_selector(recipe: RenderRequest) -> FileSelector:
    template = recipe.template
    if template.type == "manifest":
        exclude = template.exclude or ()
        return lambda listing: template_files.select_manifests(listing, template.path, exclude)
    named = template.values_files or ()
    return lambda listing: template_files.select_chart(listing, template.path, named)


def _bundle_from_manifests(contents: dict[str, bytes], place: BundleTarget) -> Bundle:
    found = manifests.read_manifests(contents)
    skipped = (f"{name} (not a Kubernetes object)" for name in found.skipped)
    return bundles.build_bundle(found.objects, place, left_out=skipped)


def _bundle_from_chart(
    output: bytes, place: BundleTarget, path: str, contents: dict[str, bytes]
) -> Bundle:
    chart, below = manifests.read_chart(output), template_files.directory_prefix(path)
    inside = {name[len(below) :]: file for name, file in contents.items() if name.startswith(below)}
    left_out = (*chart.left_out, *manifests.crd_files(inside))
    return bundles.build_bundle(chart.manifests, place, left_out=left_out)
