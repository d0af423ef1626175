"""Replicas of workloads that an autoscaler of the bundle controls.

Once the autoscaler has set the number, setting it here would fight with it. Before that, leaving
out the number that was applied would make it one; so the live number is applied again. A number
that was never applied is not applied later either.

Pure.
"""

from __future__ import annotations

from windlass.environments.bundle.bundle import Bundle, Member
from windlass.objects.names import Object


def autoscaled_workloads(bundle: Bundle) -> frozenset[tuple[str, str]]:
    """Kind and name of every workload that an autoscaler of the bundle drives."""
    targets = (
        (member.object.get("spec") or {}).get("scaleTargetRef") or {}
        for member in bundle.members
        if member.kind == "HorizontalPodAutoscaler"
    )
    return frozenset((str(ref.get("kind")), str(ref.get("name"))) for ref in targets)


def desired_object(
    member: Member, live: Object | None, driven: frozenset[tuple[str, str]], us: str
) -> Object:
    """The object to apply as `us`."""
    if live is None or (member.kind, member.name) not in driven:
        return member.object
    spec = {name: value for name, value in member.object["spec"].items() if name != "replicas"}
    if _owns_replicas(live, by_us=True, us=us) and not _owns_replicas(live, by_us=False, us=us):
        spec["replicas"] = (live.get("spec") or {}).get("replicas", 1)
    return {**member.object, "spec": spec}


def with_live_replicas(wanted: Object, live: Object) -> Object:
    """`desired_object` as it was sent before the autoscaler took the number over.

    Who differs from `desired_object` and not from this has been changed by nobody: only the number
    of replicas passes from us to the autoscaler.
    """
    replicas = (live.get("spec") or {}).get("replicas", 1)
    return {**wanted, "spec": {**(wanted.get("spec") or {}), "replicas": replicas}}


def _owns_replicas(live: Object, *, by_us: bool, us: str) -> bool:
    """Whether the number is owned by us, or by somebody else."""
    rows = live["metadata"].get("managedFields") or []
    return any(
        "f:replicas" in ((row.get("fieldsV1") or {}).get("f:spec") or {})
        for row in rows
        if (row.get("manager") == us) is by_us
    )
