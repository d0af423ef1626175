"""Renders a resolved commit into the bundle that is applied.

    files ─▶ manifests, or helm twice ─▶ generated values stabilized ─▶ bundle

The environment reconciler calls `BundleRenderer` in its step `render`; `ChartRenderer` is its
part for templates of type helm.

`BundleRenderer` decides whether to render at all. The inputs are the files that the template
needs, the template, the values and the target. The same inputs are not rendered twice, in
whatever commit they are, and a refused render is refused again without a new attempt. The last
result is kept for as long as its namespace exists. Parsing YAML keeps a processor busy, so it
runs off the event loop.

`ChartRenderer` turns the files of a chart into objects as text. With the same inputs the stored
output is used, also across restarts (`output_store`). With others helm renders twice, and what
differs between the two takes its values from the stored output (`generated_values`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windlass.api.kinds.project_sources import Template
from windlass.base.clock import Clock
from windlass.environments import spec
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle.bundle import Bundle, BundleRefused, BundleTarget
from windlass.environments.metrics import ReconcileMetrics
from windlass.environments.preconditions import EnvironmentContext
from windlass.environments.render import generated_values, helm_command, manifests
from windlass.environments.render.api_capabilities import CapabilitiesCache
from windlass.environments.render.helm import Helm
from windlass.environments.render.helm_command import Release
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.output_store import ChartOutput, OutputMemory, OutputStore
from windlass.environments.resource_cache import environment_identity
from windlass.environments.source import template_files
from windlass.environments.source.commits import (
    RENDER,
    FileSelector,
    SourceFiles,
    SourceRepositories,
)
from windlass.environments.spec import SpecRefused
from windlass.environments.status import SourceCommit
from windlass.objects.names import Key
from windlass.runtime.pending_calls import PendingCalls

_NOT_STORED = (
    "the rendered chart is too large to store in a Secret, so values that it generates change "
    "when the operator restarts; make the chart smaller, or set fixed values"
)


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """The inputs of a render besides files and target; equal requests give equal objects."""

    template: Template
    values: tuple[bytes, ...]  # of the template, then of the Environment; JSON, later ones win
    release: str  # name of the helm release


class ChartRenderer:
    """Renders the charts of all Environments, and stores their outputs."""

    def __init__(self, helm: Helm, capabilities: CapabilitiesCache, outputs: OutputStore) -> None:
        self._helm = helm
        self._capabilities = capabilities
        self._outputs = outputs

    async def render(
        self,
        request: RenderRequest,
        tree: str,
        contents: Mapping[str, bytes],
        target: BundleTarget,
        memory: OutputMemory,
    ) -> ChartOutput:
        """The objects of a chart as text; `tree` is the digest of its files in `contents`."""
        inputs = helm_command.inputs_digest(
            tree,
            request.template.path,
            request.template.values_files or (),
            request.values,
            (request.release, target.namespace),
        )
        stored = await self._outputs.get(target.namespace, target.owner, memory)
        if stored is not None and stored.inputs == inputs:
            return stored
        first, second = await self._run_helm(request, contents, target.namespace)
        previous = stored.text if stored is not None else b""
        stable = await asyncio.to_thread(generated_values.stabilize, first, second, previous)
        return ChartOutput(inputs, stable.output, stable.notes)

    async def store(
        self, output: ChartOutput, target: BundleTarget, memory: OutputMemory
    ) -> tuple[str, ...]:
        """Store the output that is about to be applied; returns its notes for the status."""
        is_stored = await self._outputs.store(target.namespace, target.owner, output, memory)
        return output.notes if is_stored else (*output.notes, _NOT_STORED)

    async def _run_helm(
        self, request: RenderRequest, contents: Mapping[str, bytes], namespace: str
    ) -> tuple[bytes, bytes]:
        cluster = await self._capabilities.get()
        prefix = template_files.directory_prefix(request.template.path)
        files = {
            name[len(prefix) :]: content
            for name, content in contents.items()
            if name.startswith(prefix)
        }
        values_files = tuple(contents[name] for name in request.template.values_files or ())
        release = Release(request.release, namespace, cluster.kube_version, cluster.api_versions)
        return await self._helm.template(files, (*values_files, *request.values), release)


REFUSALS = (SpecRefused, RenderRefused, BundleRefused)
"""Errors of the project or its spec; the same inputs raise them again."""


@dataclass(frozen=True, slots=True)
class RenderedBundle:
    """The result of the last render of an Environment, and its inputs."""

    commit: str  # the commit whose files were read last; may be newer than the render
    request: RenderRequest
    target: BundleTarget
    tree: str  # digest of the files that the template needs
    result: Bundle | RenderRefused | BundleRefused

    def bundle(self) -> Bundle:
        """The bundle; raises the refusal where there is none."""
        if isinstance(self.result, Bundle):
            return self.result
        # Raised again and again: its traceback would grow with every reconcile.
        raise self.result.with_traceback(None)


@dataclass(slots=True, eq=False)
class RenderMemory:
    """What is remembered of rendering for one namespace, from one reconcile to the next.

    Compared by identity: a render that began for another namespace of the same name is not taken.
    """

    last: RenderedBundle | None = None  # refusals included
    output: OutputMemory = field(default_factory=OutputMemory)


class BundleRenderer:
    """Renders the bundles of all Environments."""

    def __init__(
        self,
        sources: SourceRepositories,
        charts: ChartRenderer,
        calls: PendingCalls,
        metrics: ReconcileMetrics,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._charts = charts
        self._calls = calls
        self._metrics = metrics
        self._clock = clock

    async def render(
        self,
        context: EnvironmentContext,
        commits: tuple[SourceCommit, ...],
        target: BundleTarget,
        memory: RenderMemory,
    ) -> Bundle:
        """The bundle of an Environment at its resolved commits; raises one of REFUSALS."""
        request = _render_request(context)
        name = spec.template_source_name(context.project, request.template)
        source = next(commit for commit in commits if commit.name == name)
        previous = memory.last
        if previous is not None and (previous.request, previous.target) != (request, target):
            previous = None  # its files may be the same, but have to be rendered anew
        if previous is None or previous.commit != source.commit:
            previous = await self._calls.result(
                context.key,
                RENDER,
                (source, request, target, memory),
                functools.partial(
                    self._render_commit, context, source, previous, request, target, memory.output
                ),
            )
            memory.last = previous
        return previous.bundle()

    def cancel(self, key: Key) -> None:
        """Cancel a render that is under way: the Environment is gone, or it shall begin anew."""
        self._calls.forget(key)

    async def _render_commit(
        self,
        context: EnvironmentContext,
        source: SourceCommit,
        previous: RenderedBundle | None,
        request: RenderRequest,
        target: BundleTarget,
        memory: OutputMemory,
    ) -> RenderedBundle:
        started = self._clock.monotonic()
        sources = spec.desired_sources(context.project, context.environment)
        desired = next(candidate for candidate in sources if candidate.name == source.name)
        try:
            files = await self._sources.read_files(
                context.project.metadata.namespace,
                desired,
                source,
                _file_selector(request),
                known_tree=previous.tree if previous is not None else "",
            )
        except RenderRefused as error:
            self._metrics.record_render_rejection(error.reason)
            raise
        # Another commit with the same files: nothing is rendered, nothing restarts.
        if files.contents is None and previous is not None:
            return replace(previous, commit=source.commit)
        result = await self._build(request, files, target, memory)
        if isinstance(result, Bundle):
            self._metrics.record_render(self._clock.monotonic() - started, request.template.type)
        else:
            self._metrics.record_render_rejection(result.reason)
        return RenderedBundle(source.commit, request, target, files.tree, result)

    async def _build(
        self,
        request: RenderRequest,
        files: SourceFiles,
        target: BundleTarget,
        memory: OutputMemory,
    ) -> Bundle | RenderRefused | BundleRefused:
        contents = files.contents or {}
        try:
            if request.template.type == "manifest":
                return await asyncio.to_thread(_bundle_from_manifests, contents, target)
            output = await self._charts.render(request, files.tree, contents, target, memory)
            bundle = await asyncio.to_thread(
                _bundle_from_chart, output.text, target, request.template.path, contents
            )
            # Not sooner: a refused output must not replace the stored one of what runs.
            notes = await self._charts.store(output, target, memory)
            return replace(bundle, notes=(*bundle.notes, *notes))
        except (RenderRefused, BundleRefused) as error:
            return error


def _render_request(context: EnvironmentContext) -> RenderRequest:
    template = spec.select_template(context.project, context.environment)
    values = helm_command.encode_values(template, context.environment)
    return RenderRequest(
        template, values, helm_command.release_name(environment_identity(context.object))
    )


def _file_selector(request: RenderRequest) -> FileSelector:
    template = request.template
    if template.type == "manifest":
        exclude = template.exclude or ()
        return lambda listing: template_files.select_manifests(listing, template.path, exclude)
    values_files = template.values_files or ()
    return lambda listing: template_files.select_chart(listing, template.path, values_files)


def _bundle_from_manifests(contents: dict[str, bytes], target: BundleTarget) -> Bundle:
    parsed = manifests.read_manifests(contents)
    skipped = (f"{name} (not a Kubernetes object)" for name in parsed.skipped)
    return bundles.build_bundle(parsed.objects, target, left_out=skipped)


def _bundle_from_chart(
    output: bytes, target: BundleTarget, path: str, contents: dict[str, bytes]
) -> Bundle:
    chart, prefix = manifests.read_chart(output), template_files.directory_prefix(path)
    chart_files = {
        name[len(prefix) :]: content
        for name, content in contents.items()
        if name.startswith(prefix)
    }
    bundle = bundles.build_bundle(
        chart.manifests, target, left_out=manifests.crd_files(chart_files), is_chart=True
    )
    return replace(bundle, notes=(*bundle.notes, *chart.skipped_hooks))
