"""Decides whether an Environment may be reconciled, and what is reported if not.

| Observed | Ready | Phase |
|---|---|---|
| its object violates the schema | False ConfigInvalid, Stalled | Failed |
| the operator is suspended | as before, Suspended | as before; Pending if it never began |
| it is suspended | as before, Suspended | as before; Pending if it never began |
| no usable Project: none, not shared with it, or invalid | False ProjectNotFound | Pending |
| the same, and it serves | as before, ProjectNotFound | as before |
| its Project is suspended | as before, ProjectSuspended | as before; Pending until it serves |
| its Project is being deleted, and it has no namespace yet | False ProjectTerminating | Pending |

What already serves keeps phase and Ready: it continues to serve. An Environment that is suspended
is not modified. One that has a namespace stays isolated until it is deleted itself, also while its
Project is being deleted or is not usable: then by the Project as it last was. After a restart that
is not known, and only what needs no Project is maintained. Whenever the isolation of a namespace
is not checked as a whole, PoliciesReady is Unknown with the reason in the table; phase and Ready do
not follow from it.

Called by `environment_reconciler` at the start of each reconcile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.api.kinds.environment import RETRY_ANNOTATION, Environment
from windlass.api.kinds.project import Project
from windlass.base.errors import Stalled
from windlass.environments import phase, spec
from windlass.environments.ownership import Ownership
from windlass.environments.resource_cache import ResourceCache
from windlass.objects.condition import Condition
from windlass.objects.names import Key, Object
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

OPERATOR_SUSPENDED = "the operator is suspended; set --environments-suspend=false to resume"


@dataclass(frozen=True, slots=True)
class EnvironmentContext:
    """The inputs of one reconcile; they do not change while it runs."""

    environment: Environment
    object: Object  # the same Environment as it is stored, status included
    project: Project
    owner: Ownership  # the labels and annotations for everything created for it
    # What to report if the Project is not usable; `project` is then the last one that was.
    blocked: Outcome | None = None

    @property
    def key(self) -> Key:
        return Key(self.environment.metadata.namespace, self.environment.metadata.name)

    @property
    def status(self) -> Object:
        status: Object = self.object.get("status") or {}
        return status

    @property
    def is_new(self) -> bool:
        """Whether no reconcile has reported a step or the phase Initializing yet."""
        return not self.status.get("steps") and self.status.get("phase") != "Initializing"

    @property
    def retry_request(self) -> str:
        """The value of the retry annotation; empty if it is not set."""
        annotations = self.object["metadata"].get("annotations") or {}
        return str(annotations.get(RETRY_ANNOTATION) or "")

    @property
    def is_retried(self) -> bool:
        """Whether the retry annotation has a value that was not handled yet."""
        request = self.retry_request
        return bool(request) and request != self.status.get("lastHandledRetryAt")

    @property
    def template_type(self) -> str:
        return spec.select_template(self.project, self.environment).type


@dataclass(frozen=True, slots=True)
class UnknownProject:
    """An Environment with a namespace whose Project is not usable and was not since the start."""

    environment: Environment
    object: Object  # the same Environment as it is stored, status included
    owner: Ownership  # without the branch if it is the Project's
    blocked: Outcome  # what to report
    unchecked: Condition  # PoliciesReady


def check(
    cache: ResourceCache,
    key: Key,
    obj: Object,
    *,
    last_project: Project | None,
    suspended: bool,
) -> EnvironmentContext | UnknownProject | Outcome:
    """The context to reconcile, what is known of it without its Project, or what blocks it.

    `last_project` is the Project of the last reconcile; `suspended` is the operator's.
    """
    try:
        environment = Environment.from_object(obj)
    except Stalled as error:
        has_namespace = bool((obj.get("status") or {}).get("namespace"))
        return _invalid_outcome(error, has_namespace=has_namespace)
    if suspended:
        return _suspended_outcome(environment, "Suspended", OPERATOR_SUSPENDED)
    if environment.spec.suspend:
        text = "suspended by spec.suspend; set it to false to resume"
        return _suspended_outcome(environment, "Suspended", text)
    ref = environment.spec.project_ref
    project_key = Key(ref.namespace_from(key.namespace), ref.name)
    project, team = cache.readable_project(project_key), cache.team(key.namespace)
    if project is None or not spec.may_use_project(project, environment):
        # The same text for both cases, so that it does not reveal which Projects others have.
        text = (
            f"Project {project_key} not found or not shared with namespace {key.namespace}; "
            f"create it, or add {key.namespace} to its spec.environmentNamespaces"
        )
        blocked = _blocked_outcome(environment, Verdict("False", "ProjectNotFound", text))
        if not environment.status.namespace:
            return blocked
        if last_project is None:
            unknown = phase.unchecked_policies("ProjectNotFound", text)
            blocked = replace(blocked, conditions=(unknown,))
            owner = _ownership(environment, None, team)
            return UnknownProject(environment, obj, owner, blocked, unknown)
        owner = _ownership(environment, last_project, team)
        return EnvironmentContext(environment, obj, last_project, owner, blocked)
    if project.spec.suspend:
        text = f"Project {project_key} is suspended; set its spec.suspend to false to resume"
        return _suspended_outcome(environment, "ProjectSuspended", text)
    if project.metadata.deletion_timestamp and not environment.status.namespace:
        text = (
            f"Project {project_key} is being deleted; delete this Environment, or create the "
            "Project again"
        )
        return _blocked_outcome(environment, Verdict("False", "ProjectTerminating", text))
    return EnvironmentContext(environment, obj, project, _ownership(environment, project, team))


def _ownership(environment: Environment, project: Project | None, team: str) -> Ownership:
    """Ownership labels of the Environment; the branch is that of its first source."""
    sources = environment.spec.sources or ()
    branch = sources[0].branch if sources else ""
    if not branch and project is not None and project.spec.sources:
        branch = project.spec.sources[0].branch
    return Ownership(
        uid=environment.metadata.uid,
        namespace=environment.metadata.namespace,
        name=environment.metadata.name,
        project=environment.spec.project_ref.name,
        branch=branch,
        team=team,
    )


def _blocked_outcome(environment: Environment, verdict: Verdict) -> Outcome:
    fields: Object = {"message": verdict.message[:1024]}
    # A missing Project needs a user to act, one that is being deleted does not: no warning.
    is_missing = verdict.reason == "ProjectNotFound"
    if environment.status.serving is not None:
        events = (OutcomeEvent("Warning", verdict.reason, verdict.message),) if is_missing else ()
        unchanged = Verdict(None, verdict.reason, verdict.message)
        return Outcome(unchanged, fields=fields, events=events)
    fields["phase"] = "Pending"
    return Outcome(verdict, reconciling=True, fields=fields, warns=is_missing)


def _suspended_outcome(environment: Environment, reason: str, text: str) -> Outcome:
    fields: Object = {"message": text[:1024]}
    waits = environment.status.serving is None and reason == "ProjectSuspended"
    if waits or environment.status.phase is None:
        fields["phase"] = "Pending"
    unchecked = _unchecked(reason, text) if environment.status.namespace else ()
    return Outcome(Verdict(None, reason, text), conditions=unchecked, fields=fields)


def _invalid_outcome(error: Stalled, *, has_namespace: bool) -> Outcome:
    return Outcome(
        Verdict("False", error.reason, error.message),
        stalled=True,
        conditions=_unchecked(error.reason, error.message) if has_namespace else (),
        fields={"phase": "Failed", "message": error.message[:1024]},
    )


def _unchecked(reason: str, text: str) -> tuple[Condition, ...]:
    return (phase.unchecked_policies(reason, text),)
