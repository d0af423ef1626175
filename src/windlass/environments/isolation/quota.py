"""ResourceQuota and LimitRange of an Environment.

The quota is set by the Project (or by the Environment, within the Project's maximum); the
LimitRange gives containers without resources defaults that the quota then counts. Objects that
the operator itself keeps in the namespace are added to the requested amounts, so that a full
namespace never blocks the operator. A quota is not exact: while pods come and go, the API server
sometimes admits one too many (`docs/decisions/0017`).

Amounts are Kubernetes quantities by the names of the CRD (`memory`, `limitsMemory`).

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass.objects import quantity
from windlass.objects.names import Object

# Objects of the operator itself, on top of the requested amounts.
OWN_SECRETS = 6
OWN_CONFIG_MAPS = 4
OWN_JOBS = 8

_DEFAULTS = {
    "cpu": "2",
    "memory": "4Gi",
    "storage": "20Gi",
    "ephemeralStorage": "10Gi",
    "pods": "20",
    "persistentVolumeClaims": "10",
    "services": "20",
    "jobs": "20",
    "secrets": "60",
    "configMaps": "60",
}
_KEYS = {
    "cpu": "requests.cpu",
    "memory": "requests.memory",
    "limitsCpu": "limits.cpu",
    "limitsMemory": "limits.memory",
    "storage": "requests.storage",
    "ephemeralStorage": "requests.ephemeral-storage",
    "pods": "pods",
    "persistentVolumeClaims": "persistentvolumeclaims",
    "services": "services",
    "jobs": "count/jobs.batch",
    "secrets": "count/secrets",
    "configMaps": "count/configmaps",
}
_OF_CPU = frozenset({"cpu", "limitsCpu"})
_RESERVED = {"secrets": OWN_SECRETS, "configMaps": OWN_CONFIG_MAPS, "jobs": OWN_JOBS}
_REQUEST = {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "256Mi"}
# So that as many containers as the default quota has pods fit into it: 20 into 8Gi and 20Gi.
_LIMIT = {"cpu": "500m", "memory": "400Mi", "ephemeral-storage": "1Gi"}


class QuotaAboveMaximum(ValueError):
    """An Environment requests more than its Project allows."""


@dataclass(frozen=True, slots=True)
class ContainerBounds:
    """Defaults and maxima for one container, by resource; what is omitted follows the quota."""

    default_request: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)
    max: Mapping[str, str] = field(default_factory=dict)


def trusted_amounts(
    project: Mapping[str, str], environment: Mapping[str, str], maximum: Mapping[str, str]
) -> dict[str, str]:
    """The amounts of a trusted Environment; raises QuotaAboveMaximum with the field."""
    bounds = _with_memory_limit({**_DEFAULTS, **project, **maximum})
    for name in _names_above(environment, bounds):
        raise QuotaAboveMaximum(
            f"spec.quota.{name} is {environment[name]}, the maximum of the Project is "
            f"{bounds[name]}; lower it, or raise spec.resources.maxQuota.{name} of the Project"
        )
    return _with_memory_limit({**_DEFAULTS, **project, **environment})


def untrusted_amounts(
    project: Mapping[str, str], environment: Mapping[str, str], granted: Mapping[str, str]
) -> dict[str, str]:
    """The amounts of an untrusted Environment; raises QuotaAboveMaximum with the field.

    Half of the Project's default quota, or what the administrator has `granted`; never more than
    a trusted Environment gets by default.
    """
    trusted = {**_DEFAULTS, **project}
    halves = {name: _half(name, amount) for name, amount in trusted.items()}
    maximum = _clamp({**halves, **granted}, _with_memory_limit({**trusted}))
    bounds = _with_memory_limit({**maximum})
    for name in _names_above(environment, bounds):
        raise QuotaAboveMaximum(
            f"spec.quota.{name} is {environment[name]}, the maximum for untrusted Environments of "
            f"the Project is {bounds[name]}; lower it"
        )
    return _with_memory_limit({**maximum, **environment})


def _names_above(requested: Mapping[str, str], bounds: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(requested.keys() & bounds.keys()):
        if quantity.parse(requested[name]) > quantity.parse(bounds[name]):
            yield name


def _with_memory_limit(amounts: dict[str, str]) -> dict[str, str]:
    # Twice the requests unless it is set. Not for the CPU: a limit only throttles pods there,
    # and with that quota key every pod would need a CPU limit.
    amounts.setdefault("limitsMemory", _twice(amounts["memory"]))
    return amounts


def hard_limits(amounts: Mapping[str, str]) -> dict[str, str]:
    """The `spec.hard` of the ResourceQuota for some amounts."""
    keys = {_KEYS[name]: value for name, value in amounts.items()}
    for name, own in _RESERVED.items():
        keys[_KEYS[name]] = str(int(quantity.parse(amounts[name])) + own)
    keys["limits.ephemeral-storage"] = _twice(amounts["ephemeralStorage"])
    # Both would expose pods outside the cluster, past the isolation.
    keys["services.loadbalancers"] = "0"
    keys["services.nodeports"] = "0"
    return keys


def container_limit_range(
    limits: ContainerBounds, quota: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The LimitRange's row for containers; request <= limit <= max, and all fit the quota.

    The quota may be smaller than the Project's defaults for containers, because an Environment
    may request less; the API server would refuse a row that contradicts itself.
    """
    maximum = {**_bounds(quota, "limits"), **limits.max}
    default = _clamp({**_LIMIT, **limits.default}, maximum, _bounds(quota, "limits"))
    request = _clamp(
        {**_REQUEST, **limits.default_request}, default, maximum, _bounds(quota, "requests")
    )
    return {"default": default, "defaultRequest": request, "max": maximum}


def is_in_force(hard: Mapping[str, str], live: Object) -> bool:
    """Whether the API server counts by `hard`, as the status of the live ResourceQuota tells."""
    counted = (live.get("status") or {}).get("hard") or {}
    return hard.keys() == counted.keys() and all(
        quantity.same(hard[name], counted[name]) for name in hard
    )


def usage_message(live: Object) -> str:
    """A text if more is used than the quota allows, which then holds for new pods only."""
    status = live.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    over = sorted(
        name
        for name, amount in used.items()
        if name in hard and quantity.parse(amount) > quantity.parse(hard[name])
    )
    if not over:
        return ""
    return f"In force; usage exceeds the quota ({', '.join(over)}); existing pods keep running"


def _bounds(quota: Mapping[str, str], kind: str) -> dict[str, str]:
    """The amounts of the quota for the resources of a container; `kind` is requests or limits."""
    amounts = {name: quota.get(f"{kind}.{name}") for name in _LIMIT}
    return {name: value for name, value in amounts.items() if value is not None}


def _clamp(values: Mapping[str, str], *bounds: Mapping[str, str]) -> dict[str, str]:
    return {
        name: min((value, *_bounds_named(name, bounds)), key=quantity.parse)
        for name, value in values.items()
    }


def _bounds_named(name: str, bounds: Iterable[Mapping[str, str]]) -> Iterator[str]:
    return (bound[name] for bound in bounds if name in bound)


def _twice(amount: str) -> str:
    digits = amount.rstrip("KMGTPEimunk")
    if digits.isdecimal():
        return f"{int(digits) * 2}{amount[len(digits) :]}"
    return str(int(quantity.parse(amount) * 2))


def _half(name: str, amount: str) -> str:
    digits = amount.rstrip("KMGTPEimunk")
    if digits.isdecimal() and int(digits) % 2 == 0:
        return f"{int(digits) // 2}{amount[len(digits) :]}"
    half = quantity.parse(amount) / 2
    return f"{math.ceil(half * 1000)}m" if name in _OF_CPU else str(math.ceil(half))
