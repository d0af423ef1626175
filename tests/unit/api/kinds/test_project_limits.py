"""Quantities of a Project that must not exceed another one."""

from __future__ import annotations

from windlass.api.kinds.project_limits import (
    ContainerLimits,
    ContainerResources,
    ProjectResources,
    Quota,
)
from windlass.api.schema.validation import validate


def test_quantities_are_compared_by_value() -> None:
    """A maximum below the default is refused, however both are spelled."""
    assert validate(ProjectResources(max_quota=Quota(cpu="2000m", memory="4096Mi"))) == []
    (problem,) = validate(ProjectResources(max_quota=Quota(memory="4G")))
    assert str(problem) == "spec.maxQuota: maxQuota must not be lower than defaultQuota"


def test_a_request_is_not_above_its_limit() -> None:
    """Without a limit of its own a request is compared with the default one."""
    request = ContainerResources(memory="1Gi")
    (problem,) = validate(ContainerLimits(default_request=request))
    assert problem.path == "spec.default"
    enough = ContainerResources(memory="1Gi")
    assert validate(ContainerLimits(default_request=request, default=enough)) == []
