"""The fence that an Environment should have, worked out from it and its Project.

The same Project, quota and trust wish for the same fence, so it is worked out once and then
known by its identity. What cannot be wished for is refused before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.api.kinds.environment import Trust
from windlass.api.kinds.project import Project
from windlass.api.kinds.project_limits import Quota
from windlass.environments.acceptance import Subject
from windlass.environments.decide import fences, quota, trust, wish
from windlass.environments.decide.fences import EgressRefused, Surroundings
from windlass.environments.decide.quota import AboveMaximum
from windlass.environments.decide.trust import Untrusted
from windlass.environments.fencing import Fence
from windlass.objects.names import Key


class FenceRefused(ValueError):
    """No such fence is put up; `reason` says why in one word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Worked:
    """A fence, and what it was worked out from."""

    project: Project
    quota: Quota | None
    trust: Trust
    fence: Fence

    def is_for(self, subject: Subject) -> bool:
        spec = subject.environment.spec
        same = (self.quota, self.trust) == (spec.quota, spec.trust)
        return same and self.project is subject.project


class WishedFences:
    """The wished fences of all Environments."""

    def __init__(self, surroundings: Surroundings, untrusted: Untrusted) -> None:
        self._surroundings = surroundings
        self._untrusted = untrusted
        self._known: dict[Key, _Worked] = {}

    def of(self, subject: Subject) -> Fence:
        """The fence of one Environment; FenceRefused says why there is none."""
        known = self._known.get(subject.key)
        if known is None or not known.is_for(subject):
            spec = subject.environment.spec
            fence = self._judged(subject)
            known = _Worked(subject.project, spec.quota, spec.trust, fence)
            self._known[subject.key] = known
        return known.fence

    def forget(self, key: Key) -> None:
        """The Environment is gone."""
        self._known.pop(key, None)

    def _judged(self, subject: Subject) -> Fence:
        if not self._surroundings.is_enforced and not trust.is_given(subject.environment):
            raise FenceRefused(
                "EnforcementAbsent",
                "nothing here enforces network policies (setting environments-network-enforcement "
                "is absent), so what is untrusted cannot be fenced in; run it in a cluster whose "
                "network enforces them",
            )
        try:
            return self._worked_out(subject)
        except AboveMaximum as error:
            raise FenceRefused("QuotaAboveMaximum", str(error)) from error
        except EgressRefused as error:
            raise FenceRefused("EgressNotAllowed", str(error)) from error

    def _worked_out(self, subject: Subject) -> Fence:
        project, environment = subject.project, subject.environment
        hard = quota.hard(trust.amounts(project, environment, self._untrusted))
        policies = fences.policies(
            wish.doors(project, trusted=trust.is_given(environment)),
            self._surroundings,
            web_egress=project.spec.network.web_egress == "Public",
        )
        return Fence(
            hard,
            quota.container_limits(wish.limits(project), hard),
            policies,
            is_trusted=trust.is_given(environment),
        )
