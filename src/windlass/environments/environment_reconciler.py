"""Reconciles one Environment: observe, decide, act, report. The story file of the capability.

    namespace ─▶ policies ─▶ source ─▶ render ─▶ prepare ─▶ workloads ─▶ rollout

Hooks of a chart run before anything else is applied (preDeploy) and after the rollout
(postDeploy). The first step whose result does not continue ends the run, and the results of all
steps up to it are written to the status at once. Before the namespace is created, the finalizer
is set and the phase Initializing is published: no object is ever created that would not be
removed again.

Called by the `environment` controller, one key at a time, up to 16 keys at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace

from windlass.api.install.environment_objects import Stage
from windlass.api.kinds import environment
from windlass.api.kinds.project_limits import PodSecurity
from windlass.base.clock import Clock
from windlass.base.errors import Pending, WindlassError
from windlass.environments import audit_log, phase, preconditions, spec, step
from windlass.environments import events as environment_events
from windlass.environments import status as environment_status
from windlass.environments.apply.apply_progress import ApplyResult
from windlass.environments.apply.bundle_applier import BundleApplier
from windlass.environments.apply.rollout import RolloutTracker
from windlass.environments.audit_log import Correction
from windlass.environments.bundle.bundle import Bundle, BundleTarget
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.bundle.hooks import HookPhase
from windlass.environments.deletion import EnvironmentDeletion
from windlass.environments.inventory import ReleaseRevision
from windlass.environments.isolation import trust
from windlass.environments.isolation.isolation_step import IsolationStep
from windlass.environments.isolation.isolation_writer import IsolationSpec, IsolationWriter
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.memory import EnvironmentMemory
from windlass.environments.metrics import ReconcileMetrics, parse_time
from windlass.environments.namespace.namespace_manager import NamespaceManager
from windlass.environments.phase import PhaseContext
from windlass.environments.preconditions import EnvironmentContext, UnknownProject
from windlass.environments.render.renderer import REFUSALS, BundleRenderer
from windlass.environments.resource_cache import ResourceCache, environment_identity
from windlass.environments.source.commits import CommitResolver
from windlass.environments.spec import SpecRefused
from windlass.environments.status import HOOK_STEPS, ReconcileReport
from windlass.environments.step import StepResult
from windlass.environments.write_slots import SlotPriority, WriteSlots
from windlass.kube.api import Api
from windlass.objects.names import Key, Object, format_count
from windlass.runtime import finalizer, status
from windlass.runtime.controller import PENDING_SECONDS
from windlass.runtime.outcome import Outcome, Verdict

_REQUEUE_SECONDS = 5.0
"""When to reconcile again after a write of ours, should its watch event not arrive."""

RESOLVING = "ResolvingSource"
"""Reason of BuildReady while the first commit of an Environment is being resolved."""

_WRITE_SLOTS = 2
"""Environments that write at the same time."""

_SETTLING_SECONDS = 1.0
"""When to reconcile again while a changed quota takes effect."""


@dataclass(frozen=True, slots=True)
class EnvironmentServices:
    """What a reconcile acts with; one instance of each serves all Environments."""

    namespaces: NamespaceManager  # step namespace
    isolation: IsolationWriter  # step policies
    commits: CommitResolver  # step source
    renderer: BundleRenderer  # step render
    applier: BundleApplier  # steps preDeploy, prepare, workloads, postDeploy
    rollouts: RolloutTracker  # step rollout
    deletion: EnvironmentDeletion  # everything for an Environment with a deletionTimestamp
    cluster_access: Callable[[], ClusterAccess]  # what bundles may refer to, as of now


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """Settings of the operator that apply to every Environment."""

    network: ClusterNetwork
    untrusted: UntrustedPolicy
    poll_seconds: float  # how often branches are resolved again
    field_manager: str
    suspended: bool  # the operator changes nothing in the cluster


@dataclass(slots=True)
class Run:
    """One run of the steps: each returns the next report, and sets here what later ones need."""

    context: EnvironmentContext  # the Environment and its Project, when the run began
    memory: EnvironmentMemory  # from earlier reconciles, for later ones
    report: ReconcileReport  # results of the steps so far
    isolation: IsolationSpec = field(init=False)  # set by step policies
    resolved_at: float = field(init=False)  # set by step source: monotonic time
    bundle: Bundle = field(init=False)  # set by step render


class EnvironmentReconciler:
    """Reconciles all Environments; `newest` is that of their reporter.

    `on_correction` is called for each object with drift.
    """

    def __init__(
        self,
        api: Api,
        cache: ResourceCache,
        services: EnvironmentServices,
        metrics: ReconcileMetrics,
        clock: Clock,
        *,
        newest: Callable[[Key], Object | None],
        settings: ReconcilerSettings,
        on_correction: Callable[[Object, Correction], None],
    ) -> None:
        self._api = api
        self._cache = cache
        # The Environment as stored, with our last status write: from an older status, events and
        # retries would count twice.
        self._newest = newest
        self._services = services
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._on_correction = on_correction
        # Shared by all Environments: bounds how many of them write at the same time.
        self._write_slots = WriteSlots(_WRITE_SLOTS)
        # What is remembered of each Environment, until it is gone.
        self._memories: defaultdict[Key, EnvironmentMemory] = defaultdict(EnvironmentMemory)
        self._isolation = IsolationStep(
            services.isolation, settings.network, settings.untrusted, on_correction
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one Environment to its desired state, or as far as it gets; log and count it."""
        started, obj = self._clock.monotonic(), self._newest(key)
        outcome = await self._reconcile_existing(key, obj) if obj is not None else Outcome.gone()
        if outcome.is_gone and outcome.requeue_after is None:  # gone, not merely postponed
            self._memories.pop(key, None)
            self._services.commits.forget(key)
            self._services.renderer.cancel(key)
            self._metrics.forget(key)
        elif obj is not None and not outcome.is_gone:
            project = environment_identity(obj).project
            self._metrics.record_reconcile(key, project, obj.get("status") or {}, outcome)
            audit_log.log_transition(obj, outcome, self._clock.monotonic() - started)
        return outcome

    async def _reconcile_existing(self, key: Key, obj: Object) -> Outcome:
        """Delete, block, initialize, or run the steps, in this order of precedence."""
        if obj["metadata"].get("deletionTimestamp"):
            return await self._services.deletion.reconcile(obj)
        last = self._memories[key].isolation
        context = preconditions.check(
            self._cache,
            key,
            obj,
            last_project=last.project if last is not None else None,
            suspended=self._settings.suspended,
        )
        if isinstance(context, Outcome):
            return context
        if isinstance(context, UnknownProject):
            return await self._isolate_without_project(key, context)
        if not finalizer.has_finalizer(obj, environment.FINALIZER):
            return await self._add_finalizer(obj)
        if context.is_new:
            return _initializing_outcome()
        report = await self._run_steps(context)
        if report.is_settling and environment_status.was_isolated(context.status):
            # A changed quota takes some milliseconds to count. Reporting that would make
            # PoliciesReady and Ready flap, so the status stays as it is.
            return Outcome.postponed(_SETTLING_SECONDS)
        if context.blocked is not None:
            return environment_status.add_conditions(context.blocked, report)
        return environment_status.build_outcome(report, context.status, self._clock.now())

    async def _add_finalizer(self, obj: Object) -> Outcome:
        """Set the finalizer; the watch event of this write triggers the next reconcile."""
        await finalizer.add_finalizer(
            self._api,
            environment.KIND.gvr,
            obj,
            environment.FINALIZER,
            field_manager=self._settings.field_manager,
        )
        return Outcome.postponed(_REQUEUE_SECONDS)

    # ---- the steps

    async def _run_steps(self, context: EnvironmentContext) -> ReconcileReport:
        """Run the steps in order until one ends the run; the results of all of them."""
        generation = context.object["metadata"].get("generation") or 0
        report = ReconcileReport(retry_at=context.retry_request, generation=generation)
        run = Run(context, self._memories[context.key], report)
        # Two slots instead of one: resolving and rendering in between write nothing, and may
        # take long.
        stages = (
            (SlotPriority.BEGINNING, (self._ensure_namespace, self._isolate)),
            (None, (self._resolve_source, self._render)),
            (SlotPriority.APPLYING, (self._apply, self._check_rollout)),
        )
        # Without a usable Project nothing is applied, but what runs stays isolated.
        for priority, steps in stages if context.blocked is None else stages[:1]:
            async with self._write_slot(context.status, priority):
                for run_step in steps:
                    run.report = await run_step(run)
                    if run.report.results[-1][1].ends_run:
                        return run.report
        return run.report

    def _write_slot(
        self, status: Object, priority: SlotPriority | None
    ) -> AbstractAsyncContextManager[None]:
        if priority is None:
            return nullcontext()
        serves = bool(status.get("serving"))
        return self._write_slots.acquire(SlotPriority.SERVING if serves else priority)

    async def _isolate_without_project(self, key: Key, unknown: UnknownProject) -> Outcome:
        """Restore what of an isolation needs no Project, in the namespace as it is."""
        identity = environment_identity(unknown.object)
        live = self._services.namespaces.find_active(identity, unknown.owner.uid)
        if live is None:
            return unknown.blocked
        memory = self._memories[key].content_of(live["metadata"]["uid"]).isolation
        async with self._write_slot(unknown.object["status"], SlotPriority.BEGINNING):
            result = await self._isolation.run_without_project(unknown, live, memory)
        report = ReconcileReport((("policies", result),))
        return environment_status.add_conditions(unknown.blocked, report)

    async def _ensure_namespace(self, run: Run) -> ReconcileReport:
        """Step namespace: it exists and carries the Environment's uid."""
        context, memory = run.context, run.memory
        ensured = await self._services.namespaces.ensure(
            environment_identity(context.object),
            context.owner,
            self._pod_security(context),
            self._cache.used_namespaces(),
        )
        report = _add_result(run.report, "namespace", ensured.result)
        if ensured.live is None:
            return report
        for correction in ensured.corrections:
            self._on_correction(context.object, correction)
        namespace, uid = ensured.live["metadata"]["name"], ensured.live["metadata"]["uid"]
        memory.content_of(uid)
        report = replace(report, namespace=namespace, namespace_uid=uid)
        return _with_revision(
            report, context, self._services.applier.release_state(namespace).revision
        )

    async def _isolate(self, run: Run) -> ReconcileReport:
        """Step policies: everything that isolates, before anything runs inside."""
        namespace, memory = run.report.namespace, run.memory
        run.isolation, isolated = await self._isolation.run(run.context, namespace, memory)
        report = replace(run.report, is_settling=isolated.is_settling)
        return _add_result(report, "policies", isolated.result)

    def _pod_security(self, context: EnvironmentContext) -> PodSecurity:
        return trust.pod_security(context.project, context.environment, self._settings.untrusted)

    async def _resolve_source(self, run: Run) -> ReconcileReport:
        """Step source: the commit of each repository."""
        context = run.context
        # Set before resolving: a branch that is missing now may exist at the next poll.
        report = replace(run.report, poll_seconds=self._settings.poll_seconds)
        try:
            desired = spec.desired_sources(context.project, context.environment)
            resolved = await self._services.commits.resolve(
                context.key,
                context.project.metadata.namespace,
                desired,
                at_once=self._is_refresh_requested(run),
            )
        except Pending as pending:
            _raise_unless_visible(pending, context)
            text = "waiting for the Git server"
            return _add_result(report, "source", step.pending(phase.BUILD, RESOLVING, text))
        except SpecRefused as error:
            return _add_result(report, "source", step.failed(error.kind, error.reason, str(error)))
        except WindlassError as error:
            return _add_result(report, "source", step.from_source_error(error))
        run.resolved_at = self._clock.monotonic()
        if not any(source.follows_branch for source in desired):
            report = replace(report, poll_seconds=None)
        text, polling_error = "No build needed; images are used as the manifests name them", ""
        if resolved.error is not None:
            polling_error = f"cannot check for newer commits: {resolved.error}"
            text = f"{text}; {polling_error}"
        result = step.success(phase.BUILD, "NoBuildNeeded", text)
        return _add_result(
            replace(report, sources=resolved.sources, polling_error=polling_error), "source", result
        )

    def _is_refresh_requested(self, run: Run) -> bool:
        """Whether an annotation requests new commits at once; a retry also drops what is cached.

        The commits that a retry resolved are kept until it is handled: a branch that moves faster
        than it is rendered would never be deployed.
        """
        context, memory = run.context, run.memory
        retry = context.retry_request
        if context.is_retried and memory.retry != retry:
            # Once: the reconciles that follow until it is handled need the answers to this one.
            memory.retry = retry
            memory.content.rendering.last = None
            self._services.commits.forget(context.key)
            self._services.renderer.cancel(context.key)
        request = status.pending_request(context.status, status.object_annotations(context.object))
        is_unresolved = not self._services.commits.is_resolved(context.key)
        return request is not None or (context.is_retried and is_unresolved)

    async def _render(self, run: Run) -> ReconcileReport:
        """Step render: the objects to apply, from manifests or a chart."""
        context, report, limits = run.context, run.report, run.isolation.container_limits
        target = BundleTarget(
            report.namespace,
            context.owner,
            limits["default"],
            restricted=self._pod_security(context) == "restricted",
            trusted=trust.is_trusted(context.environment),
            placement=trust.pod_placement(context.environment, self._settings.untrusted),
            cluster_access=self._services.cluster_access(),
            max_limits=limits["max"],
        )
        try:
            run.bundle = bundle = await self._services.renderer.render(
                context, report.sources, target, run.memory.content.rendering
            )
        except Pending as pending:
            _raise_unless_visible(pending, context)
            text = "fetching and rendering the manifests"
            return _add_result(report, "render", step.pending(phase.DEPLOYMENT, "Rendering", text))
        except REFUSALS as error:
            kind = error.kind if isinstance(error, SpecRefused) else phase.DEPLOYMENT
            return _add_result(report, "render", step.failed(kind, error.reason, str(error)))
        except WindlassError as error:
            return _add_result(report, "render", step.from_render_error(error))
        text = f"Rendered {format_count(len(bundle.all_members), 'object')}"
        report = _add_result(report, "render", step.success(phase.DEPLOYMENT, "Rendering", text))
        dropped = tuple(f"{name} is not applied" for name in bundle.dropped)
        return replace(report, unsupported=(*dropped, *bundle.notes), routes=bundle.routes)

    async def _apply(self, run: Run) -> ReconcileReport:
        """Steps preDeploy, prepare and workloads."""
        context, report, bundle = run.context, run.report, run.bundle
        namespace, before, is_retried = report.namespace, report.revision, context.is_retried
        memory = run.memory.content.applied
        if is_retried:
            await self._services.applier.restart_revision(namespace, context.owner, memory)
        applied = await self._services.applier.apply(
            namespace,
            context.owner,
            bundle,
            memory,
            is_retried=is_retried,
            at_least=int(context.status.get("revision") or 0),
            was_serving=bool(context.status.get("serving")),
        )
        report = _with_revision(
            report, context, self._services.applier.release_state(namespace).revision
        )
        report = replace(report, hooks=_hook_phases(report, bundle))
        self._record_apply(context, applied)
        if applied.result is None and before.number != report.revision.number:
            self._metrics.record_rollout(
                self._clock.monotonic() - run.resolved_at, context.template_type
            )
        return _add_apply_results(report, applied, bundle)

    def _record_apply(self, context: EnvironmentContext, applied: ApplyResult) -> None:
        self._metrics.record_applied(applied.written)
        self._metrics.record_pruned(applied.pruned)
        for correction in applied.corrections:
            self._on_correction(context.object, correction)

    async def _check_rollout(self, run: Run) -> ReconcileReport:
        """Steps rollout and postDeploy; records in the release state what they found."""
        context, report = run.context, run.report
        namespace, now = report.namespace, self._clock.now()
        waited_seconds = (now - (report.revision.began or now)).total_seconds()
        rollout = self._services.rollouts.check(
            namespace,
            run.bundle,
            waited_seconds,
            run.memory.content.applied,
            was_ready=report.phase_context.was_ready,
        )
        report = _add_result(report, "rollout", rollout.result)
        if not rollout.result.ends_run and "postDeploy" in (report.hooks or ()):
            result = await self._run_post_deploy_hooks(run, rollout.result)
            report = _add_result(report, "postDeploy", result)
        last = report.results[-1][1]
        state = await self._services.applier.record_rollout(
            namespace, context.owner, rollout.completed, is_ready=not last.ends_run
        )
        events = tuple(
            environment_events.rollout_events(last, context.status, state.revision.number)
        )
        if state.revision.ready is not None and not context.status.get("serving"):
            created = parse_time(context.object["metadata"]["creationTimestamp"])
            self._metrics.record_first_ready(created, now, context.template_type)
        # `phase_context` stays: whether the revision *was* ready is the state before this check.
        return replace(report, revision=state.revision, events=events)

    async def _run_post_deploy_hooks(self, run: Run, rollout: StepResult) -> StepResult:
        """Step postDeploy; once all hooks are complete, its result is that of the rollout."""
        applied = await self._services.applier.run_post_deploy_hooks(
            run.report.namespace,
            run.context.owner,
            run.bundle,
            run.memory.content.applied,
            is_retried=run.context.is_retried,
        )
        self._record_apply(run.context, applied)
        return applied.result or rollout


def _raise_unless_visible(pending: Pending, context: EnvironmentContext) -> None:
    """Report a wait only if it is long and nothing serves yet; else the status stays."""
    if context.status.get("serving") or pending.seconds < PENDING_SECONDS:
        raise pending


def _initializing_outcome() -> Outcome:
    """Phase Initializing, published before anything is created.

    The watch event of this status write triggers the next reconcile.
    """
    text = "creating the namespace"
    return Outcome(
        Verdict("False", "Progressing", text),
        reconciling=True,
        fields={"phase": "Initializing", "message": text},
        requeue_after=_REQUEUE_SECONDS,
    )


def _add_result(report: ReconcileReport, name: str, result: StepResult) -> ReconcileReport:
    return replace(report, results=(*report.results, (name, result)))


def _with_revision(
    report: ReconcileReport, context: EnvironmentContext, revision: ReleaseRevision
) -> ReconcileReport:
    was_degraded = context.status.get("phase") == "Degraded"
    phase_context = PhaseContext(was_ready=revision.ready is not None, was_degraded=was_degraded)
    return replace(report, revision=revision, phase_context=phase_context)


def _hook_phases(report: ReconcileReport, bundle: Bundle) -> frozenset[HookPhase]:
    """The hook phases for which the desired revision has hooks."""
    is_upgrade = report.revision.is_upgrade
    return frozenset(when for when in HOOK_STEPS if bundle.hooks_at(when, is_upgrade=is_upgrade))


def _add_apply_results(
    report: ReconcileReport, applied: ApplyResult, bundle: Bundle
) -> ReconcileReport:
    """Add the results of preDeploy, prepare and workloads, up to the step that stopped."""
    if applied.result is not None and applied.step == "preDeploy":
        return _add_result(report, "preDeploy", applied.result)
    if "preDeploy" in (report.hooks or ()):
        number = len(bundle.hooks_at("preDeploy", is_upgrade=report.revision.is_upgrade))
        text = f"{number} of {number} hooks complete"
        report = _add_result(report, "preDeploy", step.success(phase.DEPLOYMENT, "Applying", text))
    if applied.result is not None and applied.step == "prepare":
        return _add_result(report, "prepare", applied.result)
    count = sum(member.stage < Stage.WORKLOADS for member in bundle.members)
    text = f"Applied {format_count(count, 'object')} that workloads depend on"
    report = _add_result(report, "prepare", step.success(phase.DEPLOYMENT, "Applying", text))
    workloads = format_count(
        len(bundle.members) - count, "workload or autoscaler", "workloads and autoscalers"
    )
    text = f"Applied {workloads}"
    done = step.success(phase.DEPLOYMENT, "Applying", text)
    return _add_result(report, "workloads", applied.result or done)
