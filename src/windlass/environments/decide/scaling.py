"""How many replicas are asked for where an autoscaler decides.

Once the autoscaler has set the number, saying anything about it would fight with it. Before
that, leaving it out would make it one; so the number that is there now is said again.
"""

from __future__ import annotations

from windlass.environments.decide.bundle import Bundle, Member
from windlass.objects.json import Object


def autoscaled(bundle: Bundle) -> frozenset[tuple[str, str]]:
    """Kind and name of every workload that an autoscaler of the bundle drives."""
    targets = (
        (member.object.get("spec") or {}).get("scaleTargetRef") or {}
        for member in bundle.members
        if member.kind == "HorizontalPodAutoscaler"
    )
    return frozenset((str(ref.get("kind")), str(ref.get("name"))) for ref in targets)


def wanted(
    member: Member, live: Object | None, driven: frozenset[tuple[str, str]], us: str
) -> Object:
    """The object to apply as `us`."""
    if live is None or (member.kind, member.name) not in driven:
        return member.object
    spec = {name: value for name, value in member.object["spec"].items() if name != "replicas"}
    if not _set_by_others(live, us):
        spec["replicas"] = (live.get("spec") or {}).get("replicas", 1)
    return {**member.object, "spec": spec}


def _set_by_others(live: Object, us: str) -> bool:
    rows = live["metadata"].get("managedFields") or []
    return any(
        "f:replicas" in ((row.get("fieldsV1") or {}).get("f:spec") or {})
        for row in rows
        if row.get("manager") != us
    )
