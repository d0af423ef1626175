"""ResourceQuota and LimitRange of an Environment.

The quota is set by the Project (or by the Environment, within the Project's maximum); the
LimitRange gives pods without resources defaults that the quota then counts. Objects that
the operator itself keeps in the namespace come on top of what was requested, so that a full
namespace never stops its own housekeeping. A quota is not exact: where pods go and come, the
API server now and then admits one too many (`docs/decisions/0017`).

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass.objects import quantity

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
    """An Environment asks for more than its Project allows."""


@dataclass(frozen=True, slots=True)
class ContainerBounds:
    """Defaults and bounds for one container; what is left out follows the quota."""

    default_request: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)
    max: Mapping[str, str] = field(default_factory=dict)


def trusted_amounts(
    project: Mapping[str, str], environment: Mapping[str, str], maximum: Mapping[str, str]
) -> dict[str, str]:
    """What an Environment may use, by the Project's words; AboveMaximum names the field."""
    bounds = _with_memory_limit({**_DEFAULTS, **project, **maximum})
    for name in _names_above(environment, bounds):
        raise QuotaAboveMaximum(
            f"spec.quota.{name} is {environment[name]}, the Project allows {bounds[name]}; lower "
            f"it or raise spec.resources.maxQuota.{name} of the Project"
        )
    return _with_memory_limit({**_DEFAULTS, **project, **environment})


def untrusted_amounts(
    project: Mapping[str, str], environment: Mapping[str, str], granted: Mapping[str, str]
) -> dict[str, str]:
    """What an Environment may use that nobody vouches for; AboveMaximum names the field.

    Half of what the Project gives to others, or what is `granted`, and never more than they get.
    """
    given = {**_DEFAULTS, **project}
    halves = {name: _half(name, amount) for name, amount in given.items()}
    most = _clamp({**halves, **granted}, _with_memory_limit({**given}))
    bounds = _with_memory_limit({**most})
    for name in _names_above(environment, bounds):
        raise QuotaAboveMaximum(
            f"spec.quota.{name} is {environment[name]}, an untrusted Environment of this Project "
            f"may use {bounds[name]}; lower it"
        )
    return _with_memory_limit({**most, **environment})


def _names_above(asked: Mapping[str, str], bounds: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(asked.keys() & bounds.keys()):
        if quantity.parse(asked[name]) > quantity.parse(bounds[name]):
            yield name


def _with_memory_limit(named: dict[str, str]) -> dict[str, str]:
    # Twice the requests, as long as nobody says otherwise. Not for the CPU: a limit there
    # only slows pods down, and one quota key more makes every pod name a limit.
    named.setdefault("limitsMemory", _twice(named["memory"]))
    return named


def hard_limits(wanted: Mapping[str, str]) -> dict[str, str]:
    """The keys of the ResourceQuota."""
    keys = {_KEYS[name]: value for name, value in wanted.items()}
    for name, own in _RESERVED.items():
        keys[_KEYS[name]] = str(int(quantity.parse(wanted[name])) + own)
    keys["limits.ephemeral-storage"] = _twice(wanted["ephemeralStorage"])
    # Nothing in a preview may open a door to the outside by itself.
    keys["services.loadbalancers"] = "0"
    keys["services.nodeports"] = "0"
    return keys


def container_limit_range(
    limits: ContainerBounds, quota: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The LimitRange's row for containers; request <= limit <= max, and all fit the quota.

    The quota may be smaller than what the Project says about containers, because an
    Environment may ask for less; the API server would refuse a row that contradicts itself.
    """
    most = {**_bounds(quota, "limits"), **limits.max}
    default = _clamp({**_LIMIT, **limits.default}, most, _bounds(quota, "limits"))
    request = _clamp(
        {**_REQUEST, **limits.default_request}, default, most, _bounds(quota, "requests")
    )
    return {"default": default, "defaultRequest": request, "max": most}


def _bounds(quota: Mapping[str, str], of: str) -> dict[str, str]:
    """What the quota says about each resource of a container."""
    named = {name: quota.get(f"{of}.{name}") for name in _LIMIT}
    return {name: value for name, value in named.items() if value is not None}


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
