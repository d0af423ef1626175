"""Replicas of workloads that an autoscaler of the bundle controls.

Once the autoscaler has set `spec.replicas`, applying it here would fight with it. Before that,
omitting a number that we applied would reset it to one, so the live number is applied again. A
number that we do not own is never applied.

Pure.
"""

from __future__ import annotations

from windlass.environments.bundle.bundle import Bundle, Member
from windlass.objects.names import Object


def autoscaled_workloads(bundle: Bundle) -> frozenset[tuple[str, str]]:
    """Kind and name of every workload that an autoscaler of the bundle controls."""
    targets = (
        (member.object.get("spec") or {}).get("scaleTargetRef") or {}
        for member in bundle.members
        if member.kind == "HorizontalPodAutoscaler"
    )
    return frozenset((str(ref.get("kind")), str(ref.get("name"))) for ref in targets)


def desired_object(
    member: Member, live: Object | None, autoscaled: frozenset[tuple[str, str]], field_manager: str
) -> Object:
    """The object to apply as `field_manager`: without replicas that the autoscaler controls."""
    if live is None or (member.kind, member.name) not in autoscaled:
        return member.object
    spec = {name: value for name, value in member.object["spec"].items() if name != "replicas"}
    if _owns_replicas(live, ours=True, field_manager=field_manager) and not _owns_replicas(
        live, ours=False, field_manager=field_manager
    ):
        spec["replicas"] = (live.get("spec") or {}).get("replicas", 1)
    return {**member.object, "spec": spec}


def with_live_replicas(desired: Object, live: Object) -> Object:
    """`desired` as it was applied before the autoscaler took over the number of replicas.

    A live object that differs from `desired` but not from this has no drift: only the ownership of
    the number passes from us to the autoscaler.
    """
    replicas = (live.get("spec") or {}).get("replicas", 1)
    return {**desired, "spec": {**(desired.get("spec") or {}), "replicas": replicas}}


def _owns_replicas(live: Object, *, ours: bool, field_manager: str) -> bool:
    """Whether `field_manager` owns spec.replicas, or, if not `ours`, any other manager does."""
    rows = live["metadata"].get("managedFields") or []
    return any(
        "f:replicas" in ((row.get("fieldsV1") or {}).get("f:spec") or {})
        for row in rows
        if (row.get("manager") == field_manager) is ours
    )
