"""The manifest of a gateway pod on a local cluster: mock gateway plus agent sidecar.

The agent is a native sidecar: the gateway starts when the agent's startup probe passes,
which is when the first files are on the volume. Both run this installation
(`windlass_container`).
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.names import Object
from windlass_dev.node import windlass_container

DATA_DIRECTORY = "/data"
PORT = 8088
CONTROL_PORT = 8090
AGENT_CONTAINER = "ignition-sync-agent"
GATEWAY_CONTAINER = "gateway"

_MOUNT_ROOT = "/around"
"""Not below /etc, the agent's default: that is mounted read-only from the machine."""
_API_KEY = f"{_MOUNT_ROOT}/api-key"
_HEALTH_PORT = 8082


@dataclass(frozen=True, slots=True)
class GatewayPod:
    """One gateway; Secrets are referenced by name."""

    name: str
    """The name of the pod and of the gateway."""
    namespace: str
    """The namespace of pod, IgnitionSync and Secrets."""
    sync: str
    """The name of the IgnitionSync."""
    service_path: str
    """The directory of the repository that the gateway gets."""
    api_key_secret: str
    """The Secret with the gateway's API token, key `apiKey`."""
    git_secret: str
    """The Secret with the credentials of the repository."""
    git_host: str
    """The host that may be used without TLS."""

    def manifest(self) -> Object:
        """The manifest of the pod."""
        annotations = {
            "ignition-sync.io/inject": "true",
            "ignition-sync.io/cr-name": self.sync,
            "ignition-sync.io/service-path": self.service_path,
            "ignition-sync.io/gateway-name": self.name,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": annotations,
            },
            "spec": {
                "terminationGracePeriodSeconds": 2,
                "initContainers": [self._agent_container()],
                "containers": [self._gateway_container()],
                "volumes": [*windlass_container.volumes(), *self._volumes()],
            },
        }

    def _gateway_container(self) -> Object:
        arguments = [
            "dev",
            "gateway",
            f"--data={DATA_DIRECTORY}",
            f"--port={PORT}",
            f"--control-port={CONTROL_PORT}",
            f"--token-file={_API_KEY}/apiKey",
        ]
        mounts = {"data": DATA_DIRECTORY, "api-key": _API_KEY}
        return _with_mounts(
            windlass_container.build_container(GATEWAY_CONTAINER, arguments, {}), mounts
        )

    def _agent_container(self) -> Object:
        container = windlass_container.build_container(
            AGENT_CONTAINER,
            ["agent", "--log-format=json"],
            {
                "CR_NAME": self.sync,
                "DATA_PATH": DATA_DIRECTORY,
                "STORE_PATH": "/store",
                "RUN_PATH": "/run/windlass",
                "GIT_INSECURE_HOSTS": self.git_host,
                "POD_INFO_PATH": f"{_MOUNT_ROOT}/podinfo",
                "API_KEY_FILE": f"{_API_KEY}/apiKey",
                "GIT_AUTH_PATH": f"{_MOUNT_ROOT}/git-auth",
            },
        )
        container["env"] += [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in (
                ("POD_NAME", "metadata.name"),
                ("POD_UID", "metadata.uid"),
                ("POD_NAMESPACE", "metadata.namespace"),
                ("NODE_NAME", "spec.nodeName"),
            )
        ]
        mounts = {
            "data": DATA_DIRECTORY,
            "store": "/store",
            "run": "/run/windlass",
            "podinfo": f"{_MOUNT_ROOT}/podinfo",
            "api-key": _API_KEY,
            "git-auth": f"{_MOUNT_ROOT}/git-auth",
        }
        probe = {
            "httpGet": {"path": "/startupz", "port": _HEALTH_PORT},
            "periodSeconds": 1,
            "failureThreshold": 120,
        }
        return {**_with_mounts(container, mounts), "restartPolicy": "Always", "startupProbe": probe}

    def _volumes(self) -> list[Object]:
        downward_items = [
            {"path": name, "fieldRef": {"fieldPath": f"metadata.{name}"}}
            for name in ("annotations", "labels")
        ]
        return [
            {"name": "data", "emptyDir": {}},
            {"name": "store", "emptyDir": {}},
            {"name": "run", "emptyDir": {"medium": "Memory"}},
            {"name": "podinfo", "downwardAPI": {"items": downward_items}},
            {"name": "api-key", "secret": {"secretName": self.api_key_secret, "optional": True}},
            {"name": "git-auth", "secret": {"secretName": self.git_secret, "optional": True}},
        ]


def _with_mounts(container: Object, mounts: dict[str, str]) -> Object:
    added = [{"name": name, "mountPath": path} for name, path in mounts.items()]
    return {**container, "volumeMounts": [*container["volumeMounts"], *added]}
