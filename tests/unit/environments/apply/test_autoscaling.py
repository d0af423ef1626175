"""The applied number of replicas where an autoscaler owns it."""

from __future__ import annotations

from typing import Any

from tests.support.environments import manifests as written
from tests.support.environments.manifests import TARGET
from windlass.environments.apply import autoscaling
from windlass.objects.names import Object

US = "windlass-bundle"


def _autoscaler(kind: str = "Deployment", name: str = "web") -> Object:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name}}
    return written.make_object("autoscaling/v2", "HorizontalPodAutoscaler", "auto", spec=spec)


def _live(replicas: int, **managers: bool) -> Object:
    rows = [
        {
            "manager": name.replace("_", "-"),
            "fieldsV1": {"f:spec": {"f:replicas": {}} if says else {}},
        }
        for name, says in managers.items()
    ]
    return {"metadata": {"name": "web", "managedFields": rows}, "spec": {"replicas": replicas}}


def _wanted(live: Object | None, *more: Object, **spec: Any) -> Any:
    bundle = written.build_bundle([written.deployment(**spec), *more], TARGET)
    driven = autoscaling.autoscaled_workloads(bundle)
    [member] = [member for member in bundle.members if member.kind == "Deployment"]
    return autoscaling.desired_object(member, live, driven, US)["spec"].get("replicas")


def test_without_an_autoscaler_the_manifest_sets_replicas() -> None:
    """Whatever another client set."""
    assert _wanted(_live(5, kubectl=True), replicas=2) == 2
    assert _wanted(_live(5, kubectl=True), _autoscaler(name="other"), replicas=2) == 2
    assert _wanted(_live(5, kubectl=True), _autoscaler(kind="StatefulSet"), replicas=2) == 2


def test_a_first_time_the_manifest_speaks() -> None:
    """Nothing is there that an autoscaler could have set."""
    assert _wanted(None, _autoscaler(), replicas=2) == 2


def test_the_live_replicas_are_applied_until_the_autoscaler_sets_them() -> None:
    """Without an owner of the field, the API server would default it to one."""
    assert _wanted(_live(3, windlass_bundle=True), _autoscaler(), replicas=2) == 3
    assert _wanted(_live(3, windlass_bundle=True, kubectl=False), _autoscaler()) == 3


def test_replicas_owned_by_the_autoscaler_are_not_applied() -> None:
    """Applying a number would be a conflict with it."""
    live = _live(7, windlass_bundle=True, kube_controller_manager=True)
    assert _wanted(live, _autoscaler(), replicas=2) is None


def test_replicas_that_were_never_applied_are_not_applied_later() -> None:
    """A chart with an autoscaler sets none; applying the live number would be a change of ours."""
    assert _wanted(_live(1, windlass_bundle=False), _autoscaler()) is None


def test_a_handover_is_distinguished_from_an_edit() -> None:
    """With the live number it is what was applied before."""
    live = _live(4, windlass_bundle=True, kube_controller_manager=True)
    wanted: Object = {"spec": {"paused": False}}
    assert autoscaling.with_live_replicas(wanted, live) == {
        "spec": {"paused": False, "replicas": 4}
    }
    assert wanted == {"spec": {"paused": False}}


def test_the_member_stays_as_it_is() -> None:
    """The applied object differs; the desired one does not."""
    bundle = written.build_bundle([written.deployment(replicas=2), _autoscaler()], TARGET)
    [member] = [member for member in bundle.members if member.kind == "Deployment"]
    autoscaling.desired_object(member, _live(3), autoscaling.autoscaled_workloads(bundle), US)
    assert member.object["spec"]["replicas"] == 2
