"""Decides whether an Environment may be reconciled, and what is reported if not.

| Found | Ready | Phase |
|---|---|---|
| its object breaks a rule | False ConfigInvalid, Stalled | Failed |
| no Project, or one that is not shared with it | False ProjectNotFound | Pending |
| the same, and it serves | as before, ProjectNotFound | as before |
| the operator is suspended | as before, Suspended | as before; Pending if it never began |
| it is suspended | as before, Suspended | as before; Pending if it never began |
| its Project is suspended | as before, ProjectSuspended | as before; Pending until it serves |
| its Project is being deleted, and it has no namespace yet | False ProjectTerminating | Pending |

What already serves keeps phase and Ready: it continues to serve. An Environment that is held
back is not modified. One that has a namespace is maintained until it is deleted itself, also
while its Project is being deleted: its isolation has to stand as long as it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.base.errors import Stalled
from windlass.environments import spec
from windlass.environments.ownership import Ownership
from windlass.environments.resource_cache import ResourceCache
from windlass.objects.names import Key, Object
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

OPERATOR_SUSPENDED = (
    "the operator is suspended; nothing is changed until the administrator sets its setting "
    "environments-suspend to false"
)


@dataclass(frozen=True, slots=True)
class EnvironmentContext:
    """What one pass is about."""

    environment: Environment
    object: Object
    project: Project
    owner: Ownership

    @property
    def key(self) -> Key:
        return Key(self.environment.metadata.namespace, self.environment.metadata.name)

    @property
    def status(self) -> Object:
        status: Object = self.object.get("status") or {}
        return status

    @property
    def is_new(self) -> bool:
        """Whether no pass has begun with it, nor said that one will."""
        return not self.status.get("steps") and self.status.get("phase") != "Initializing"


def check(
    cache: ResourceCache, key: Key, obj: Object, *, suspended: bool
) -> EnvironmentContext | Outcome:
    """The Environment with its Project, or what holds it back; `suspended` is the operator."""
    try:
        found = cache.environment(key)
    except Stalled as error:
        return _invalid_outcome(error)
    assert found is not None, "nothing waits between looking and reading"
    ref = found.spec.project_ref
    there = Key(ref.namespace_from(key.namespace), ref.name)
    project = cache.readable_project(there)
    if project is None or not spec.may_use_project(project, found):
        # One answer for both, so that nobody learns which Projects others have.
        text = f"there is no Project {there} that this Environment may use; create it or share it"
        return _blocked_outcome(found, Verdict("False", "ProjectNotFound", text))
    if suspended:
        return _suspended_outcome(found, "Suspended", OPERATOR_SUSPENDED)
    if found.spec.suspend:
        text = "this Environment is suspended; nothing is changed until its spec.suspend is false"
        return _suspended_outcome(found, "Suspended", text)
    if project.spec.suspend:
        text = f"Project {there} is suspended; nothing is changed until its spec.suspend is false"
        return _suspended_outcome(found, "ProjectSuspended", text)
    if project.metadata.deletion_timestamp and not found.status.namespace:
        text = f"Project {there} is being deleted"
        return _blocked_outcome(found, Verdict("False", "ProjectTerminating", text))
    return EnvironmentContext(
        found, obj, project, _ownership(found, project, cache.team(key.namespace))
    )


def _ownership(found: Environment, project: Project, team: str) -> Ownership:
    sources = found.spec.sources or ()
    branch = sources[0].branch if sources else ""
    if not branch and project.spec.sources:
        branch = project.spec.sources[0].branch
    return Ownership(
        uid=found.metadata.uid,
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        project=project.metadata.name,
        branch=branch,
        team=team,
    )


def _blocked_outcome(found: Environment, verdict: Verdict) -> Outcome:
    fields: Object = {"message": verdict.message[:1024]}
    # A Project that leaves is on its way; one that is not there needs somebody.
    missing = verdict.reason == "ProjectNotFound"
    if found.status.serving is not None:
        told = (OutcomeEvent("Warning", verdict.reason, verdict.message),) if missing else ()
        kept = Verdict(None, verdict.reason, verdict.message)
        return Outcome(kept, fields=fields, events=told)
    fields["phase"] = "Pending"
    return Outcome(verdict, reconciling=True, fields=fields, warns=missing)


def _suspended_outcome(found: Environment, reason: str, text: str) -> Outcome:
    fields: Object = {"message": text[:1024]}
    waits = found.status.serving is None and reason == "ProjectSuspended"
    if waits or found.status.phase is None:
        fields["phase"] = "Pending"
    return Outcome(Verdict(None, reason, text), fields=fields)


def _invalid_outcome(error: Stalled) -> Outcome:
    fields = {"phase": "Failed", "message": error.message[:1024]}
    return Outcome(Verdict("False", error.reason, error.message), stalled=True, fields=fields)
