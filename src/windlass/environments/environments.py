"""One pass over one Environment: look, decide, act, report.

    namespace ─▶ policies ─▶ source ─▶ render ─▶ prepare ─▶ workloads ─▶ rollout

Hooks of a chart come before everything that is applied, and after the rollout. The first
step that does not hold ends the pass, and everything found so far is reported once. Before
the first namespace is made the phase is seen as Initializing, and the finalizer is on:
nothing is ever made that nobody would remove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass.api.kinds import environment
from windlass.api.kinds.project_limits import PodSecurity
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.environments import acceptance, chronicle, departures, troubles
from windlass.environments.acceptance import Subject
from windlass.environments.applying import Applying
from windlass.environments.cache import Cache
from windlass.environments.commits import Commits
from windlass.environments.corrections import Correction
from windlass.environments.decide import news, phase, report, step, trust, wish
from windlass.environments.decide.bundle import Bundle, Place
from windlass.environments.decide.fences import Surroundings
from windlass.environments.decide.hooks import When
from windlass.environments.decide.kinds import Stage
from windlass.environments.decide.ledger import Revision
from windlass.environments.decide.phase import Circumstances
from windlass.environments.decide.reach import Reach
from windlass.environments.decide.report import HOOKED, Account
from windlass.environments.decide.step import Finding
from windlass.environments.decide.trust import Untrusted
from windlass.environments.decide.wish import WishRefused
from windlass.environments.departures import Departures
from windlass.environments.fencing import Fence, Fencing
from windlass.environments.measures import Measures, moment
from windlass.environments.progress import Applied
from windlass.environments.rendering import REFUSALS, Rendering
from windlass.environments.rollout import Rollouts
from windlass.environments.spaces import Spaces
from windlass.environments.turns import Rank, Turns
from windlass.environments.wished_fences import FenceRefused, WishedFences
from windlass.kube.api import Api
from windlass.objects.names import Key, Object
from windlass.runtime import finalizer, status
from windlass.runtime.outcome import Outcome, Verdict

_BACKSTOP_SECONDS = 5.0
_SETTLING_SECONDS = 1.0
_UNENFORCED = (
    "nothing here enforces the network policies (setting environments-network-enforcement is "
    "absent), so its pods can be reached and can reach others"
)


@dataclass(frozen=True, slots=True)
class Hands:
    """Everything a pass acts with."""

    spaces: Spaces
    fencing: Fencing
    commits: Commits
    rendering: Rendering
    applying: Applying
    rollouts: Rollouts
    departures: Departures
    reach: Callable[[], Reach]


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every Environment."""

    surroundings: Surroundings
    untrusted: Untrusted
    poll_seconds: float
    field_manager: str
    suspended: bool


class Environments:
    """Every Environment; `corrected` hears of each object that somebody had changed."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        hands: Hands,
        measures: Measures,
        clock: Clock,
        *,
        terms: Terms,
        corrected: Callable[[Object, Correction], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._hands = hands
        self._measures = measures
        self._clock = clock
        self._terms = terms
        self._corrected = corrected
        self._turns = Turns()
        self._fences = WishedFences(terms.surroundings, terms.untrusted)

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        began, obj = self._clock.monotonic(), self._cache.stored(key)
        outcome = await self._pass(key, obj) if obj is not None else Outcome.gone()
        if outcome.is_gone and outcome.requeue_after is None:
            self._hands.rendering.forget(key)
            self._hands.commits.forget(key)
            self._fences.forget(key)
            self._measures.gone(key)
        elif obj is not None and not outcome.is_gone:
            project = departures.identity_of(obj).project
            self._measures.concluded(key, project, obj.get("status") or {}, outcome)
            chronicle.tell(obj, outcome, self._clock.monotonic() - began)
        return outcome

    async def _pass(self, key: Key, obj: Object) -> Outcome:
        if obj["metadata"].get("deletionTimestamp"):
            return await self._hands.departures.go(obj)
        subject = acceptance.accepted(self._cache, key, obj, suspended=self._terms.suspended)
        if isinstance(subject, Outcome):
            return subject
        if not finalizer.has_finalizer(obj, environment.FINALIZER):
            return await self._taken_on(obj)
        if subject.is_new:
            return _announced()
        account = await self._proceed(subject)
        if account.is_settling and report.is_isolated(subject.status):
            # What was in force is being changed, for some milliseconds: not worth a report.
            return Outcome.postponed(_SETTLING_SECONDS)
        return report.outcome(account, subject.status, self._clock.now())

    async def _taken_on(self, obj: Object) -> Outcome:
        """The finalizer comes first; its own change leads back here."""
        await finalizer.add_finalizer(
            self._api,
            environment.KIND.gvr,
            obj,
            environment.FINALIZER,
            field_manager=self._terms.field_manager,
        )
        return Outcome.postponed(_BACKSTOP_SECONDS)

    # ---- the steps

    async def _proceed(self, subject: Subject) -> Account:
        generation = subject.object["metadata"].get("generation") or 0
        begun = Account(retry_at=_retry(subject), generation=generation)
        serves = bool(subject.status.get("serving"))
        async with self._turns.taken(Rank.SERVING if serves else Rank.BEGINNING):
            account, fence = await self._grounds(subject, begun)
        if fence is None or _ends(account):
            return account
        account = await self._source(subject, account)
        if _ends(account):
            return account
        known_at = self._clock.monotonic()
        account, made = await self._render(subject, account, fence)
        if made is None:
            return account
        async with self._turns.taken(Rank.SERVING if serves else Rank.APPLYING):
            return await self._run(subject, account, made, known_at)

    async def _grounds(self, subject: Subject, account: Account) -> tuple[Account, Fence | None]:
        """The namespace and the fence around it."""
        finding, live = await self._hands.spaces.ensure(
            departures.identity_of(subject.object),
            subject.marks,
            self._pod_security(subject),
            self._cache.used_namespaces(),
        )
        account = _with(account, "namespace", finding)
        if live is None:
            return account, None
        place = live["metadata"]["name"]
        for correction in self._hands.spaces.corrections(place):
            self._corrected(subject.object, correction)
        account = replace(account, namespace=place, namespace_uid=live["metadata"]["uid"])
        account = _revised(account, subject, self._hands.applying.ledger(place).revision)
        if finding.ends:
            return account, None
        return await self._policies(subject, account)

    async def _policies(self, subject: Subject, account: Account) -> tuple[Account, Fence | None]:
        try:
            fence = self._fences.of(subject)
        except FenceRefused as error:
            refused = step.failed(phase.POLICIES, error.reason, str(error))
            return _with(account, "policies", refused), None
        fenced = await self._hands.fencing.ensure(account.namespace, subject.marks, fence)
        for correction in fenced.corrected:
            self._corrected(subject.object, correction)
        account = replace(account, is_settling=fenced.is_settling)
        finding = fenced.finding
        if not finding.ends and not self._terms.surroundings.is_enforced:
            finding = step.warned(finding, _UNENFORCED)
        return _with(account, "policies", finding), fence

    def _pod_security(self, subject: Subject) -> PodSecurity:
        return trust.pod_security(subject.project, subject.environment, self._terms.untrusted)

    async def _source(self, subject: Subject, account: Account) -> Account:
        """The commits that are meant."""
        # What cannot be found now may be there at the next look.
        account = replace(account, poll_seconds=self._terms.poll_seconds)
        try:
            wishes = wish.sources(subject.project, subject.environment)
            settled = await self._hands.commits.settle(
                subject.key,
                subject.project.metadata.namespace,
                wishes,
                at_once=self._is_asked(subject),
            )
        except WishRefused as error:
            return _with(account, "source", step.failed(error.kind, error.reason, str(error)))
        except WindlassError as error:
            return _with(account, "source", troubles.of_source(error))
        if not any(one.follows for one in wishes):
            account = replace(account, poll_seconds=None)
        text, trouble = "images are taken as they are named; there is nothing to build", ""
        if settled.trouble is not None:
            trouble = f"newer commits cannot be looked for: {settled.trouble}"
            text = f"{text}; {trouble}"
        finding = step.done(phase.BUILD, "NoBuildNeeded", text)
        return _with(replace(account, sources=settled.sources, unknown=trouble), "source", finding)

    def _is_asked(self, subject: Subject) -> bool:
        """Whether somebody wants a look at the repositories now."""
        if _is_retried(subject):
            self._hands.commits.forget(subject.key)
            self._hands.rendering.forget(subject.key)
        asked = status.pending_request(subject.status, status.object_annotations(subject.object))
        return asked is not None or _is_retried(subject)

    async def _render(
        self, subject: Subject, account: Account, fence: Fence
    ) -> tuple[Account, Bundle | None]:
        place = Place(
            account.namespace,
            subject.marks,
            fence.container["default"],
            restricted=self._pod_security(subject) == "restricted",
            trusted=trust.is_given(subject.environment),
            placement=trust.placement(subject.environment, self._terms.untrusted),
            reach=self._hands.reach(),
            max_limits=fence.container["max"],
        )
        try:
            made = await self._hands.rendering.bundle(subject, account.sources, place)
        except REFUSALS as error:
            kind = error.kind if isinstance(error, WishRefused) else phase.DEPLOYMENT
            return _with(account, "render", step.failed(kind, error.reason, str(error))), None
        except WindlassError as error:
            return _with(account, "render", troubles.of_render(error)), None
        text = f"{len(made.everything)} objects"
        account = _with(account, "render", step.done(phase.DEPLOYMENT, "Rendering", text))
        left_out = tuple(f"{name} is not applied" for name in made.dropped)
        account = replace(account, unsupported=(*left_out, *made.notes), routes=made.routes)
        return account, made

    async def _run(
        self, subject: Subject, account: Account, made: Bundle, known_at: float
    ) -> Account:
        """Apply, and look how far it is."""
        place, before, is_retried = account.namespace, account.revision, _is_retried(subject)
        if is_retried:
            await self._hands.applying.begin_again(place, subject.marks)
        applied = await self._hands.applying.apply(
            place,
            subject.marks,
            made,
            is_retried=is_retried,
            at_least=int(subject.status.get("revision") or 0),
        )
        account = _revised(account, subject, self._hands.applying.ledger(place).revision)
        account = replace(account, hooks=_moments(account, made))
        self._count(subject, applied)
        account = _applied(account, applied, made)
        if applied.finding is not None:
            return account
        if before.number != account.revision.number:
            self._measures.rolled_out(self._clock.monotonic() - known_at, _mode(subject))
        return await self._looked(subject, account, made)

    def _count(self, subject: Subject, applied: Applied) -> None:
        self._measures.applied(applied.written)
        self._measures.pruned(applied.pruned)
        for correction in applied.corrected:
            self._corrected(subject.object, correction)

    async def _looked(self, subject: Subject, account: Account, made: Bundle) -> Account:
        place, now = account.namespace, self._clock.now()
        waited = (now - (account.revision.began or now)).total_seconds()
        rollout = self._hands.rollouts.look(place, made, waited, was_ready=account.around.was_ready)
        account = _with(account, "rollout", rollout.finding)
        if not rollout.finding.ends and "postDeploy" in (account.hooks or ()):
            account = _with(account, "postDeploy", await self._concluded(subject, account, made))
        last = account.findings[-1][1]
        ledger = await self._hands.applying.note(
            place, subject.marks, rollout.ended, is_ready=not last.ends
        )
        events = tuple(news.rollout(last, subject.status, ledger.revision.number))
        if ledger.revision.ready is not None and not subject.status.get("serving"):
            created = moment(subject.object["metadata"]["creationTimestamp"])
            self._measures.ready_at_last(created, now, _mode(subject))
        # Whether it *was* ready is the state before this look: that of `account`.
        return replace(account, revision=ledger.revision, events=events)

    async def _concluded(self, subject: Subject, account: Account, made: Bundle) -> Finding:
        """The hooks after the rollout."""
        applied = await self._hands.applying.conclude(
            account.namespace, subject.marks, made, is_retried=_is_retried(subject)
        )
        self._count(subject, applied)
        return applied.finding or account.findings[-1][1]


def _announced() -> Outcome:
    """A phase that people can see, before anything is made; its own change leads back here."""
    text = "its namespace is made"
    return Outcome(
        Verdict("False", "Progressing", text),
        reconciling=True,
        fields={"phase": "Initializing", "message": text},
        requeue_after=_BACKSTOP_SECONDS,
    )


def _retry(subject: Subject) -> str:
    annotations = subject.object["metadata"].get("annotations") or {}
    return str(annotations.get(environment.RETRY_ANNOTATION) or "")


def _is_retried(subject: Subject) -> bool:
    """Whether somebody asks to leave Failed."""
    asked = _retry(subject)
    return bool(asked) and asked != subject.status.get("lastHandledRetryAt")


def _with(account: Account, name: str, finding: Finding) -> Account:
    return replace(account, findings=(*account.findings, (name, finding)))


def _revised(account: Account, subject: Subject, revision: Revision) -> Account:
    was_degraded = subject.status.get("phase") == "Degraded"
    around = Circumstances(was_ready=revision.ready is not None, was_degraded=was_degraded)
    return replace(account, revision=revision, around=around)


def _ends(account: Account) -> bool:
    return account.findings[-1][1].ends


def _mode(subject: Subject) -> str:
    return wish.template(subject.project, subject.environment).type


def _moments(account: Account, made: Bundle) -> frozenset[When]:
    """At which moments the wished revision has hooks."""
    is_upgrade = account.revision.is_upgrade
    return frozenset(when for when in HOOKED if made.due(when, is_upgrade=is_upgrade))


def _applied(account: Account, applied: Applied, made: Bundle) -> Account:
    """How far applying came: hooks, what workloads need, then they themselves."""
    if applied.finding is not None and applied.step == "preDeploy":
        return _with(account, "preDeploy", applied.finding)
    if "preDeploy" in (account.hooks or ()):
        number = len(made.due("preDeploy", is_upgrade=account.revision.is_upgrade))
        text = f"{number} of {number} hooks complete"
        account = _with(account, "preDeploy", step.done(phase.DEPLOYMENT, "Applying", text))
    if applied.finding is not None and applied.step == "prepare":
        return _with(account, "prepare", applied.finding)
    count = sum(member.stage < Stage.WORKLOADS for member in made.members)
    text = f"{count} objects that workloads need are applied"
    account = _with(account, "prepare", step.done(phase.DEPLOYMENT, "Applying", text))
    text = f"{len(made.members) - count} workloads and what scales them are applied"
    done = step.done(phase.DEPLOYMENT, "Applying", text)
    return _with(account, "workloads", applied.finding or done)
