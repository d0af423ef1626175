"""Reconciles one Environment: observe, decide, act, report. This is the story of the room.

    namespace ─▶ policies ─▶ source ─▶ render ─▶ prepare ─▶ workloads ─▶ rollout

Hooks of a chart run before everything that is applied, and after the rollout. The first step
that does not hold ends the run, and everything found so far is reported once. Before the first
namespace is created the phase Initializing is published and the finalizer is set: no object
is ever created that would not be removed again.

Called by the `environment` controller, one key at a time, up to 16 keys at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass.api.kinds import environment
from windlass.api.kinds.project_limits import PodSecurity
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.environments import audit_log, deletion, phase, preconditions, spec, step
from windlass.environments import events as environment_events
from windlass.environments import status as environment_status
from windlass.environments.apply.apply_progress import ApplyResult
from windlass.environments.apply.bundle_applier import BundleApplier
from windlass.environments.apply.rollout import RolloutTracker
from windlass.environments.audit_log import Correction
from windlass.environments.bundle.bundle import Bundle, BundleTarget
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.bundle.hooks import HookPhase
from windlass.environments.bundle.kinds import Stage
from windlass.environments.deletion import EnvironmentDeletion
from windlass.environments.inventory import ReleaseRevision
from windlass.environments.isolation import trust
from windlass.environments.isolation.desired_isolation import DesiredIsolation, IsolationRefused
from windlass.environments.isolation.isolation_writer import IsolationSpec, IsolationWriter
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.metrics import ReconcileMetrics, parse_time
from windlass.environments.namespace.namespace_manager import NamespaceManager
from windlass.environments.phase import PhaseContext
from windlass.environments.preconditions import EnvironmentContext
from windlass.environments.render.renderer import REFUSALS, BundleRenderer
from windlass.environments.resource_cache import ResourceCache
from windlass.environments.source.commits import CommitResolver
from windlass.environments.spec import SpecRefused
from windlass.environments.status import HOOK_STEPS, ReconcileReport
from windlass.environments.step import StepResult
from windlass.environments.write_slots import SlotPriority, WriteSlots
from windlass.kube.api import Api
from windlass.objects.names import Key, Object
from windlass.runtime import finalizer, status
from windlass.runtime.outcome import Outcome, Verdict

_REQUEUE_SECONDS = 5.0
_SETTLING_SECONDS = 1.0
_NOT_ENFORCED = (
    "nothing here enforces the network policies (setting environments-network-enforcement is "
    "absent), so its pods can be reached and can reach others"
)


@dataclass(frozen=True, slots=True)
class EnvironmentServices:
    """Everything a pass acts with."""

    namespaces: NamespaceManager
    isolation: IsolationWriter
    commits: CommitResolver
    renderer: BundleRenderer
    applier: BundleApplier
    rollouts: RolloutTracker
    deletion: EnvironmentDeletion
    cluster_access: Callable[[], ClusterAccess]


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """What holds for every Environment."""

    network: ClusterNetwork
    untrusted: UntrustedPolicy
    poll_seconds: float
    field_manager: str
    suspended: bool


class EnvironmentReconciler:
    """Every Environment; `corrected` hears of each object that somebody had changed."""

    def __init__(
        self,
        api: Api,
        cache: ResourceCache,
        hands: EnvironmentServices,
        measures: ReconcileMetrics,
        clock: Clock,
        *,
        terms: ReconcilerSettings,
        corrected: Callable[[Object, Correction], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._services = hands
        self._metrics = measures
        self._clock = clock
        self._settings = terms
        self._on_correction = corrected
        self._write_slots = WriteSlots()
        self._desired_isolation = DesiredIsolation(terms.network, terms.untrusted)

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        began, obj = self._clock.monotonic(), self._cache.stored_environment(key)
        outcome = await self._reconcile_existing(key, obj) if obj is not None else Outcome.gone()
        if outcome.is_gone and outcome.requeue_after is None:
            self._services.renderer.forget(key)
            self._services.commits.forget(key)
            self._desired_isolation.forget(key)
            self._metrics.forget(key)
        elif obj is not None and not outcome.is_gone:
            project = deletion.environment_identity(obj).project
            self._metrics.record_reconcile(key, project, obj.get("status") or {}, outcome)
            audit_log.log_transition(obj, outcome, self._clock.monotonic() - began)
        return outcome

    async def _reconcile_existing(self, key: Key, obj: Object) -> Outcome:
        if obj["metadata"].get("deletionTimestamp"):
            return await self._services.deletion.reconcile(obj)
        subject = preconditions.check(self._cache, key, obj, suspended=self._settings.suspended)
        if isinstance(subject, Outcome):
            return subject
        if not finalizer.has_finalizer(obj, environment.FINALIZER):
            return await self._add_finalizer(obj)
        if subject.is_new:
            return _initializing_outcome()
        account = await self._run_steps(subject)
        if account.is_settling and environment_status.is_isolated(subject.status):
            # What was in force is being changed, for some milliseconds: not worth a report.
            return Outcome.postponed(_SETTLING_SECONDS)
        return environment_status.build_outcome(account, subject.status, self._clock.now())

    async def _add_finalizer(self, obj: Object) -> Outcome:
        """The finalizer comes first; its own change leads back here."""
        await finalizer.add_finalizer(
            self._api,
            environment.KIND.gvr,
            obj,
            environment.FINALIZER,
            field_manager=self._settings.field_manager,
        )
        return Outcome.postponed(_REQUEUE_SECONDS)

    # ---- the steps

    async def _run_steps(self, subject: EnvironmentContext) -> ReconcileReport:
        generation = subject.object["metadata"].get("generation") or 0
        begun = ReconcileReport(retry_at=_retry_request(subject), generation=generation)
        serves = bool(subject.status.get("serving"))
        async with self._write_slots.acquire(
            SlotPriority.SERVING if serves else SlotPriority.BEGINNING
        ):
            account, fence = await self._prepare_namespace(subject, begun)
        if fence is None or _ends_run(account):
            return account
        account = await self._resolve_source(subject, account)
        if _ends_run(account):
            return account
        known_at = self._clock.monotonic()
        account, made = await self._render(subject, account, fence)
        if made is None:
            return account
        async with self._write_slots.acquire(
            SlotPriority.SERVING if serves else SlotPriority.APPLYING
        ):
            return await self._apply(subject, account, made, known_at)

    async def _prepare_namespace(
        self, subject: EnvironmentContext, account: ReconcileReport
    ) -> tuple[ReconcileReport, IsolationSpec | None]:
        """The namespace and the fence around it."""
        finding, live = await self._services.namespaces.ensure(
            deletion.environment_identity(subject.object),
            subject.owner,
            self._pod_security(subject),
            self._cache.used_namespaces(),
        )
        account = _add_result(account, "namespace", finding)
        if live is None:
            return account, None
        place = live["metadata"]["name"]
        for correction in self._services.namespaces.take_corrections(place):
            self._on_correction(subject.object, correction)
        account = replace(account, namespace=place, namespace_uid=live["metadata"]["uid"])
        account = _with_revision(
            account, subject, self._services.applier.release_state(place).revision
        )
        if finding.ends_run:
            return account, None
        return await self._isolate(subject, account)

    async def _isolate(
        self, subject: EnvironmentContext, account: ReconcileReport
    ) -> tuple[ReconcileReport, IsolationSpec | None]:
        try:
            fence = self._desired_isolation.compute(subject)
        except IsolationRefused as error:
            refused = step.failed(phase.POLICIES, error.reason, str(error))
            return _add_result(account, "policies", refused), None
        fenced = await self._services.isolation.ensure(account.namespace, subject.owner, fence)
        for correction in fenced.corrections:
            self._on_correction(subject.object, correction)
        account = replace(account, is_settling=fenced.is_settling)
        finding = fenced.result
        if not finding.ends_run and not self._settings.network.is_enforced:
            finding = step.with_warning(finding, _NOT_ENFORCED)
        return _add_result(account, "policies", finding), fence

    def _pod_security(self, subject: EnvironmentContext) -> PodSecurity:
        return trust.pod_security(subject.project, subject.environment, self._settings.untrusted)

    async def _resolve_source(
        self, subject: EnvironmentContext, account: ReconcileReport
    ) -> ReconcileReport:
        """The commits that are meant."""
        # What cannot be found now may be there at the next look.
        account = replace(account, poll_seconds=self._settings.poll_seconds)
        try:
            wishes = spec.desired_sources(subject.project, subject.environment)
            settled = await self._services.commits.resolve(
                subject.key,
                subject.project.metadata.namespace,
                wishes,
                at_once=self._is_refresh_requested(subject),
            )
        except SpecRefused as error:
            return _add_result(account, "source", step.failed(error.kind, error.reason, str(error)))
        except WindlassError as error:
            return _add_result(account, "source", step.from_source_error(error))
        if not any(one.follows_branch for one in wishes):
            account = replace(account, poll_seconds=None)
        text, trouble = "images are taken as they are named; there is nothing to build", ""
        if settled.error is not None:
            trouble = f"newer commits cannot be looked for: {settled.error}"
            text = f"{text}; {trouble}"
        finding = step.success(phase.BUILD, "NoBuildNeeded", text)
        return _add_result(
            replace(account, sources=settled.sources, polling_error=trouble), "source", finding
        )

    def _is_refresh_requested(self, subject: EnvironmentContext) -> bool:
        """Whether somebody wants a look at the repositories now."""
        if _is_retried(subject):
            self._services.commits.forget(subject.key)
            self._services.renderer.forget(subject.key)
        asked = status.pending_request(subject.status, status.object_annotations(subject.object))
        return asked is not None or _is_retried(subject)

    async def _render(
        self, subject: EnvironmentContext, account: ReconcileReport, fence: IsolationSpec
    ) -> tuple[ReconcileReport, Bundle | None]:
        place = BundleTarget(
            account.namespace,
            subject.owner,
            fence.container_limits["default"],
            restricted=self._pod_security(subject) == "restricted",
            trusted=trust.is_trusted(subject.environment),
            placement=trust.pod_placement(subject.environment, self._settings.untrusted),
            cluster_access=self._services.cluster_access(),
            max_limits=fence.container_limits["max"],
        )
        try:
            made = await self._services.renderer.render(subject, account.sources, place)
        except REFUSALS as error:
            kind = error.kind if isinstance(error, SpecRefused) else phase.DEPLOYMENT
            return _add_result(account, "render", step.failed(kind, error.reason, str(error))), None
        except WindlassError as error:
            return _add_result(account, "render", step.from_render_error(error)), None
        text = f"{len(made.all_members)} objects"
        account = _add_result(account, "render", step.success(phase.DEPLOYMENT, "Rendering", text))
        left_out = tuple(f"{name} is not applied" for name in made.dropped)
        account = replace(account, unsupported=(*left_out, *made.notes), routes=made.routes)
        return account, made

    async def _apply(
        self, subject: EnvironmentContext, account: ReconcileReport, made: Bundle, known_at: float
    ) -> ReconcileReport:
        """Apply, and look how far it is."""
        place, before, is_retried = account.namespace, account.revision, _is_retried(subject)
        if is_retried:
            await self._services.applier.restart_revision(place, subject.owner)
        applied = await self._services.applier.apply(
            place,
            subject.owner,
            made,
            is_retried=is_retried,
            at_least=int(subject.status.get("revision") or 0),
        )
        account = _with_revision(
            account, subject, self._services.applier.release_state(place).revision
        )
        account = replace(account, hooks=_hook_phases(account, made))
        self._record_apply(subject, applied)
        account = _add_apply_results(account, applied, made)
        if applied.result is not None:
            return account
        if before.number != account.revision.number:
            self._metrics.record_rollout(
                self._clock.monotonic() - known_at, _template_type(subject)
            )
        return await self._check_rollout(subject, account, made)

    def _record_apply(self, subject: EnvironmentContext, applied: ApplyResult) -> None:
        self._metrics.record_applied(applied.written)
        self._metrics.record_pruned(applied.pruned)
        for correction in applied.corrections:
            self._on_correction(subject.object, correction)

    async def _check_rollout(
        self, subject: EnvironmentContext, account: ReconcileReport, made: Bundle
    ) -> ReconcileReport:
        place, now = account.namespace, self._clock.now()
        waited = (now - (account.revision.began or now)).total_seconds()
        rollout = self._services.rollouts.check(
            place, made, waited, was_ready=account.phase_context.was_ready
        )
        account = _add_result(account, "rollout", rollout.result)
        if not rollout.result.ends_run and "postDeploy" in (account.hooks or ()):
            account = _add_result(
                account, "postDeploy", await self._run_post_deploy_hooks(subject, account, made)
            )
        last = account.results[-1][1]
        ledger = await self._services.applier.record_rollout(
            place, subject.owner, rollout.completed, is_ready=not last.ends_run
        )
        events = tuple(
            environment_events.rollout_events(last, subject.status, ledger.revision.number)
        )
        if ledger.revision.ready is not None and not subject.status.get("serving"):
            created = parse_time(subject.object["metadata"]["creationTimestamp"])
            self._metrics.record_first_ready(created, now, _template_type(subject))
        # Whether it *was* ready is the state before this look: that of `account`.
        return replace(account, revision=ledger.revision, events=events)

    async def _run_post_deploy_hooks(
        self, subject: EnvironmentContext, account: ReconcileReport, made: Bundle
    ) -> StepResult:
        """The hooks after the rollout."""
        applied = await self._services.applier.run_post_deploy_hooks(
            account.namespace, subject.owner, made, is_retried=_is_retried(subject)
        )
        self._record_apply(subject, applied)
        return applied.result or account.results[-1][1]


def _initializing_outcome() -> Outcome:
    """A phase that people can see, before anything is made; its own change leads back here."""
    text = "its namespace is made"
    return Outcome(
        Verdict("False", "Progressing", text),
        reconciling=True,
        fields={"phase": "Initializing", "message": text},
        requeue_after=_REQUEUE_SECONDS,
    )


def _retry_request(subject: EnvironmentContext) -> str:
    annotations = subject.object["metadata"].get("annotations") or {}
    return str(annotations.get(environment.RETRY_ANNOTATION) or "")


def _is_retried(subject: EnvironmentContext) -> bool:
    """Whether somebody asks to leave Failed."""
    asked = _retry_request(subject)
    return bool(asked) and asked != subject.status.get("lastHandledRetryAt")


def _add_result(account: ReconcileReport, name: str, finding: StepResult) -> ReconcileReport:
    return replace(account, results=(*account.results, (name, finding)))


def _with_revision(
    account: ReconcileReport, subject: EnvironmentContext, revision: ReleaseRevision
) -> ReconcileReport:
    was_degraded = subject.status.get("phase") == "Degraded"
    around = PhaseContext(was_ready=revision.ready is not None, was_degraded=was_degraded)
    return replace(account, revision=revision, phase_context=around)


def _ends_run(account: ReconcileReport) -> bool:
    return account.results[-1][1].ends_run


def _template_type(subject: EnvironmentContext) -> str:
    return spec.select_template(subject.project, subject.environment).type


def _hook_phases(account: ReconcileReport, made: Bundle) -> frozenset[HookPhase]:
    """At which moments the wished revision has hooks."""
    is_upgrade = account.revision.is_upgrade
    return frozenset(when for when in HOOK_STEPS if made.hooks_at(when, is_upgrade=is_upgrade))


def _add_apply_results(
    account: ReconcileReport, applied: ApplyResult, made: Bundle
) -> ReconcileReport:
    """How far applying came: hooks, what workloads need, then they themselves."""
    if applied.result is not None and applied.step == "preDeploy":
        return _add_result(account, "preDeploy", applied.result)
    if "preDeploy" in (account.hooks or ()):
        number = len(made.hooks_at("preDeploy", is_upgrade=account.revision.is_upgrade))
        text = f"{number} of {number} hooks complete"
        account = _add_result(
            account, "preDeploy", step.success(phase.DEPLOYMENT, "Applying", text)
        )
    if applied.result is not None and applied.step == "prepare":
        return _add_result(account, "prepare", applied.result)
    count = sum(member.stage < Stage.WORKLOADS for member in made.members)
    text = f"{count} objects that workloads need are applied"
    account = _add_result(account, "prepare", step.success(phase.DEPLOYMENT, "Applying", text))
    text = f"{len(made.members) - count} workloads and what scales them are applied"
    done = step.success(phase.DEPLOYMENT, "Applying", text)
    return _add_result(account, "workloads", applied.result or done)
