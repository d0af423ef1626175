"""One pass over one Environment: look, decide, act, report.

    namespace ─▶ policies ─▶ source ─▶ render ─▶ apply ─▶ rollout

The first step that does not hold ends the pass, and everything found so far is reported
once. Before the first namespace is made the phase is seen as Initializing, and the
finalizer is on: nothing is ever made that nobody would remove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass.api import environment
from windlass.api.environment import Environment
from windlass.api.project import Project
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.environments import departures
from windlass.environments.applying import Applying
from windlass.environments.cache import Cache
from windlass.environments.decide import bundle as bundles
from windlass.environments.decide import fences, manifests, phase, quota, report, step, wish
from windlass.environments.decide.bundle import Bundle, BundleRefused, Place
from windlass.environments.decide.fences import EgressRefused, Surroundings
from windlass.environments.decide.manifests import RenderRefused
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.phase import Circumstances
from windlass.environments.decide.quota import AboveMaximum
from windlass.environments.decide.report import Account, Source
from windlass.environments.decide.step import Finding
from windlass.environments.decide.wish import SourceWish, WishRefused
from windlass.environments.departures import Departures
from windlass.environments.fencing import Fence, Fencing
from windlass.environments.rollout import Rollouts
from windlass.environments.source import Sources
from windlass.environments.spaces import Spaces
from windlass.kube.api import Api
from windlass.objects.json import Object
from windlass.objects.key import Key
from windlass.runtime import finalizer, requests
from windlass.runtime.outcome import Notice, Outcome, Verdict

_AT_ONCE = 0.01
_SOURCE_REASONS = {
    "AuthFailed": "GitAuthFailed",
    "SecretMissing": "GitAuthFailed",
    "SecretKeyMissing": "GitAuthFailed",
    "HostKeyMismatch": "HostKeyMismatch",
    "RefNotFound": "RefNotFound",
    "CommitNotOnRef": "CommitNotOnRef",
    "UnsafePath": "UnsafePath",
    "SourceTooLarge": "SourceTooLarge",
    "TooLarge": "SourceTooLarge",
}


@dataclass(frozen=True, slots=True)
class Hands:
    """Everything a pass acts with."""

    spaces: Spaces
    fencing: Fencing
    sources: Sources
    applying: Applying
    rollouts: Rollouts
    departures: Departures


@dataclass(frozen=True, slots=True)
class _Subject:
    """What one pass is about."""

    environment: Environment
    object: Object
    project: Project
    marks: Marks

    @property
    def name(self) -> str:
        return self.environment.metadata.name


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A bundle, and what it was made from."""

    inputs: tuple[object, ...]
    bundle: Bundle


class Environments:
    """Every Environment."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        hands: Hands,
        clock: Clock,
        *,
        surroundings: Surroundings,
        poll_seconds: float,
        field_manager: str,
        corrected: Callable[[Object, str], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._hands = hands
        self._clock = clock
        self._surroundings = surroundings
        self._poll_seconds = poll_seconds
        self._field_manager = field_manager
        self._corrected = corrected
        self._rendered: dict[str, _Rendered] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        try:
            found = self._cache.environment(key)
        except Stalled as error:
            return _unreadable(error)
        if found is None:
            return Outcome.gone()
        environment_, obj = found
        if obj["metadata"].get("deletionTimestamp"):
            self._rendered.pop(environment_.metadata.uid, None)
            return await self._hands.departures.go(environment_, obj)
        project, held_back = self._project(environment_)
        if held_back is not None:
            return held_back
        assert project is not None, "who is not held back has a Project"
        subject = _Subject(environment_, obj, project, _marks(environment_, project))
        if not obj.get("status", {}).get("phase"):
            return await self._first_sight(subject)
        account = await self._proceed(subject)
        return report.outcome(account, obj.get("status") or {}, self._clock.now())

    # ---- whether there is something to do

    def _project(self, found: Environment) -> tuple[Project | None, Outcome | None]:
        ref = found.spec.project_ref
        key = Key(ref.namespace_from(found.metadata.namespace), ref.name)
        project = self._cache.readable_project(key)
        if project is None or not wish.shares(project, found):
            # One answer for both, so that nobody learns which Projects others have.
            text = f"there is no Project {key} that this Environment may use; create it or share it"
            return None, _pending(found, "ProjectNotFound", text)
        for suspended, who in (
            (found.spec.suspend, "it"),
            (project.spec.suspend, f"Project {key}"),
        ):
            if suspended:
                text = f"{who} is suspended; nothing is changed until spec.suspend is false"
                return None, replace(Outcome.suspended(text), fields={"message": text})
        if project.metadata.deletion_timestamp:
            text = f"Project {key} is being deleted"
            return None, _pending(found, "ProjectTerminating", text)
        return project, None

    async def _first_sight(self, subject: _Subject) -> Outcome:
        """The finalizer, and a phase that people can see, before anything is made."""
        await finalizer.add(
            self._api,
            environment.KIND.gvr,
            subject.object,
            environment.FINALIZER,
            field_manager=self._field_manager,
        )
        text = "its namespace is made"
        return Outcome(
            Verdict("False", "Progressing", text),
            reconciling=True,
            fields={"phase": "Initializing", "message": text},
            requeue_after=_AT_ONCE,
        )

    # ---- the steps

    async def _proceed(self, subject: _Subject) -> Account:
        account = await self._grounds(subject, Account(retry_at=_retry(subject.object)))
        if _ends(account):
            return account
        account = await self._source(subject, account)
        if _ends(account):
            return account
        account, made = await self._render(subject, account)
        if made is None:
            return account
        return await self._run(subject, account, made)

    async def _grounds(self, subject: _Subject, account: Account) -> Account:
        """The namespace and the fence around it."""
        finding, live = await self._hands.spaces.ensure(
            departures.identity_of(subject.environment),
            subject.marks,
            subject.project.spec.security.pod_security,
            self._cache.used_namespaces(),
        )
        account = _with(account, "namespace", finding)
        if live is None:
            return account
        place = live["metadata"]["name"]
        account = replace(account, namespace=place, namespace_uid=live["metadata"]["uid"])
        ledger = self._hands.applying.ledger(place)
        account = replace(
            account,
            revision=ledger.revision,
            around=Circumstances(was_ready=ledger.revision.ready is not None),
        )
        if finding.ends:
            return account
        try:
            fence = self._fence(subject)
        except AboveMaximum as error:
            return _with(account, "policies", _refused(phase.POLICIES, "QuotaAboveMaximum", error))
        except EgressRefused as error:
            return _with(account, "policies", _refused(phase.POLICIES, "EgressNotAllowed", error))
        fenced = await self._hands.fencing.ensure(place, subject.marks, fence)
        for name in fenced.corrected:
            self._corrected(subject.object, name)
        return _with(account, "policies", fenced.finding)

    def _fence(self, subject: _Subject) -> Fence:
        spec = subject.project.spec
        hard = quota.hard(
            quota.amounts(
                wish.amounts(spec.resources.default_quota),
                wish.amounts(subject.environment.spec.quota),
                wish.amounts(spec.resources.max_quota),
            )
        )
        policies = fences.policies(
            wish.doors(subject.project),
            self._surroundings,
            web_egress=spec.network.web_egress == "Public",
        )
        return Fence(hard, quota.container_limits(wish.limits(subject.project), hard), policies)

    async def _source(self, subject: _Subject, account: Account) -> Account:
        """The commits that are meant."""
        try:
            wishes = wish.sources(subject.project, subject.environment)
            settled = await self._settled(subject, wishes)
        except WishRefused as error:
            return _with(account, "source", step.failed(error.kind, error.reason, str(error)))
        except WindlassError as error:
            return _with(account, "source", _git_trouble(error))
        account = replace(account, sources=settled, poll_seconds=self._next_poll(wishes))
        text = "manifests are taken as they are; there is nothing to build"
        return _with(account, "source", step.done(phase.BUILD, "NoBuildNeeded", text))

    async def _settled(
        self, subject: _Subject, wishes: tuple[SourceWish, ...]
    ) -> tuple[Source, ...]:
        asked = requests.pending(
            subject.object.get("status") or {}, requests.annotations_of(subject.object)
        )
        age = 0.0 if asked is not None else self._poll_seconds
        namespace = subject.project.metadata.namespace
        return tuple(
            [
                await self._hands.sources.settle(namespace, one, max_age_seconds=age)
                for one in wishes
            ]
        )

    def _next_poll(self, wishes: tuple[SourceWish, ...]) -> float | None:
        return self._poll_seconds if any(one.follows for one in wishes) else None

    async def _render(self, subject: _Subject, account: Account) -> tuple[Account, Bundle | None]:
        """The bundle; the same commit in the same place is not rendered twice."""
        try:
            made = await self._bundle(subject, account)
        except WishRefused as error:
            finding = step.failed(error.kind, error.reason, str(error))
            return _with(account, "render", finding), None
        except (RenderRefused, BundleRefused) as error:
            finding = step.failed(phase.DEPLOYMENT, error.reason, str(error))
            return _with(account, "render", finding), None
        except WindlassError as error:
            return _with(account, "render", _git_trouble(error)), None
        text = f"{len(made.members)} objects"
        account = _with(account, "render", step.done(phase.DEPLOYMENT, "Rendering", text))
        left_out = tuple(f"{name} is not applied" for name in made.dropped)
        return replace(account, unsupported=(*left_out, *made.notes)), made

    async def _bundle(self, subject: _Subject, account: Account) -> Bundle:
        template = wish.template(subject.project, subject.environment)
        name = wish.template_source(subject.project, template)
        settled = next(one for one in account.sources if one.name == name)
        place = self._place(subject, account.namespace)
        inputs = (settled.commit, template, place)
        known = self._rendered.get(subject.marks.uid)
        if known is not None and known.inputs == inputs:
            return known.bundle
        wishes = wish.sources(subject.project, subject.environment)
        wanted = next(one for one in wishes if one.name == name)
        files = await self._hands.sources.files(
            subject.project.metadata.namespace, wanted, settled, template.path
        )
        made = bundles.assembled(manifests.objects(files), place)
        self._rendered[subject.marks.uid] = _Rendered(inputs, made)
        return made

    def _place(self, subject: _Subject, namespace: str) -> Place:
        return Place(
            namespace,
            subject.marks,
            self._fence(subject).container["default"],
            restricted=subject.project.spec.security.pod_security == "restricted",
        )

    async def _run(self, subject: _Subject, account: Account, made: Bundle) -> Account:
        """Apply, and look how far it is."""
        place = account.namespace
        status = subject.object.get("status") or {}
        if account.retry_at and account.retry_at != status.get("lastHandledRetryAt"):
            await self._hands.applying.begin_again(place, subject.marks)
        applied = await self._hands.applying.apply(place, subject.marks, made)
        account = replace(account, revision=self._hands.applying.ledger(place).revision)
        account = replace(
            account, around=Circumstances(was_ready=account.revision.ready is not None)
        )
        if applied.finding is not None:
            return _with(account, "apply", applied.finding)
        text = f"{len(made.members)} objects applied"
        account = _with(account, "apply", step.done(phase.DEPLOYMENT, "Applying", text))
        began = account.revision.began or self._clock.now()
        waited = (self._clock.now() - began).total_seconds()
        rollout = self._hands.rollouts.look(place, made, waited)
        ledger = await self._hands.applying.note(
            place, subject.marks, rollout.ended, is_ready=not rollout.finding.ends
        )
        return replace(
            _with(account, "rollout", rollout.finding),
            revision=ledger.revision,
            events=_news(rollout.finding, account, ledger.revision.number),
        )


def _marks(found: Environment, project: Project) -> Marks:
    sources = found.spec.sources or ()
    branch = sources[0].branch if sources else ""
    if not branch and project.spec.sources:
        branch = project.spec.sources[0].branch
    return Marks(
        uid=found.metadata.uid,
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        project=project.metadata.name,
        branch=branch,
    )


def _retry(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(environment.RETRY_ANNOTATION) or "")


def _with(account: Account, name: str, finding: Finding) -> Account:
    return replace(account, findings=(*account.findings, (name, finding)))


def _ends(account: Account) -> bool:
    return account.findings[-1][1].ends


def _refused(kind: str, reason: str, error: Exception) -> Finding:
    return step.failed(kind, reason, str(error))


def _git_trouble(error: WindlassError) -> Finding:
    """What keeps the commits from us, as a condition says it."""
    reason = _SOURCE_REASONS.get(error.reason, "GitUnavailable")
    text = f"{error.reason}: {error.message}"
    if isinstance(error, Stalled | Waiting) and error.after is not None:
        return step.waiting(phase.BUILD, reason, text, after=error.after)
    if isinstance(error, Stalled):
        return step.failed(phase.BUILD, reason, text)
    return step.retrying(phase.BUILD, reason, text)


def _pending(found: Environment, reason: str, text: str) -> Outcome:
    fields: Object = {"message": text}
    if found.status.serving is None:
        fields["phase"] = "Pending"
    return Outcome(Verdict("False", reason, text), reconciling=True, fields=fields)


def _unreadable(error: Stalled) -> Outcome:
    fields = {"phase": "Failed", "message": error.message[:1024]}
    return Outcome(Verdict("False", error.reason, error.message), stalled=True, fields=fields)


def _news(finding: Finding, account: Account, number: int) -> tuple[Notice, ...]:
    if not finding.ends:
        return (Notice("Normal", "Deployed", f"revision {number} is ready"),)
    if account.around.was_ready:
        return (Notice("Warning", "Degraded", finding.condition.message),)
    if finding.condition.reason != "RolloutProgressing":
        return (Notice("Warning", "RolloutStuck", finding.condition.message),)
    return ()
