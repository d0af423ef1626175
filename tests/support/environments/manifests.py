"""Objects as a project writes them, and a target of their bundle."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle.bundle import Bundle, BundleTarget
from windlass.environments.bundle.cluster_access import AllowedStorageClasses, ClusterAccess
from windlass.environments.ownership import Ownership
from windlass.environments.render.manifests import ManifestObject
from windlass.objects.names import JSON, Object

OWNER = Ownership("uid-1", "team-a", "shop-pr-1", "shop", "feature/x")
FILE = "deploy/all.yaml"
CLUSTER_ACCESS = ClusterAccess(AllowedStorageClasses(frozenset({"fast", "slow"}), "fast"))
TARGET = BundleTarget(
    "env-shop-pr-1",
    OWNER,
    {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "2Gi"},
    cluster_access=CLUSTER_ACCESS,
)


def build_bundle(objects: Iterable[Object], namespace: BundleTarget = TARGET) -> Bundle:
    """The bundle of some objects of one file."""
    return bundles.build_bundle([ManifestObject(obj, FILE) for obj in objects], namespace)


def pod_spec(**more: JSON) -> Object:
    """A pod that breaks no rule."""
    return {"containers": [{"name": "app", "image": "example.org/app:1"}], **more}


def container(**more: JSON) -> Object:
    """A pod spec with one container that has these fields."""
    return pod_spec(containers=[{"name": "app", "image": "example.org/app:1", **more}])


def deployment(name: str = "web", pod: Object | None = None, **spec: JSON) -> Object:
    """A Deployment that breaks no rule."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod or pod_spec()},
            **spec,
        },
    }


def stateful_set(name: str = "db", pod: Object | None = None, **spec: JSON) -> Object:
    """A StatefulSet likewise."""
    return {**deployment(name, pod, serviceName=name, **spec), "kind": "StatefulSet"}


def job(name: str = "once", pod: Object | None = None) -> Object:
    """A Job likewise."""
    spec = {"template": {"spec": pod or pod_spec(restartPolicy="Never")}}
    return make_object("batch/v1", "Job", name, spec=spec)


def cron_job(name: str = "nightly", pod: Object | None = None) -> Object:
    """A CronJob likewise."""
    inner = {"template": {"spec": pod or pod_spec(restartPolicy="Never")}}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": inner}}
    return make_object("batch/v1", "CronJob", name, spec=spec)


def service(name: str = "web", **spec: JSON) -> Object:
    """A Service likewise."""
    return make_object("v1", "Service", name, spec={"selector": {"app": name}, **spec})


def make_object(api_version: str, kind: str, name: str, **rest: JSON) -> Object:
    """Any object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}
