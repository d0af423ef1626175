"""Installs windlass into a local cluster, the way an administrator would.

`windlass run --dev` and the integration tests call `install`. Namespace, CRDs, roles and
webhook configuration are those that `make generate` writes; only the subject of the
bindings (a user with a certificate) and the address of the webhook (this machine as seen
from the cluster) differ. The operator then acts as that user, never as administrator, so
its permissions are real from the first day.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from windlass.api.install import crd, rbac, webhook
from windlass.api.install.installation import Installation
from windlass.api.kinds.registry import KINDS
from windlass.base.errors import WindlassError
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import GVR, Object
from windlass.objects.resources import (
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    WEBHOOK_CONFIGURATIONS,
)
from windlass.runtime.owned import OwnedObjects
from windlass_dev.cluster import kubeconfig, ports
from windlass_dev.cluster.local_cluster import LocalCluster

OPERATOR_USER = "windlass-operator"

_FIELD_MANAGER = "windlass-dev"
_LABEL_SELECTOR = "app.kubernetes.io/name=windlass"
_DEFINITION = "CustomResourceDefinition"
_ESTABLISH_SECONDS = 30.0
_RESOURCES = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": GVR("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    _DEFINITION: CUSTOM_RESOURCE_DEFINITIONS,
    "ValidatingWebhookConfiguration": WEBHOOK_CONFIGURATIONS,
    "ValidatingAdmissionPolicy": GVR(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"
    ),
    "ValidatingAdmissionPolicyBinding": GVR(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings"
    ),
}

_Identity = tuple[str, str, str]
"""Kind, namespace and name of an object."""


@dataclass(frozen=True, slots=True)
class InstalledOperator:
    """What the operator of a local cluster needs to run."""

    kubeconfig: Path
    """Acts as `OPERATOR_USER`."""
    webhook_host: str
    """The address at which the API server calls the webhook on this machine."""
    webhook_port: int
    """Its port, the same at each start."""
    work_directory: Path
    """Where the operator keeps its Git stores."""


async def install(
    cluster: LocalCluster, installation: Installation, *, watch: Literal["selected", "any"] = "any"
) -> InstalledOperator:
    """Apply everything and wait until the CRDs are served; running it again changes nothing."""
    extension = kubeconfig.read_extension(cluster.admin_kubeconfig)
    if extension is None:
        raise WindlassError(
            "NotADesk",
            f"kubeconfig {cluster.admin_kubeconfig} is not one of `windlass dev up`; --dev "
            "installs cluster-wide objects, so it refuses any other cluster",
        )
    # Chosen once: the webhook configuration names it.
    port = await asyncio.to_thread(ports.port_from_file, cluster.directory / "webhook-port")
    url = f"https://{extension.webhook_host}:{port}"
    documents = [
        *rbac.documents([rbac.user_subject(OPERATOR_USER)], installation=installation, watch=watch),
        *(crd.crd_manifest(kind) for kind in KINDS),
        webhook.webhook_configuration(installation.release, installation.namespace, b"", url),
    ]
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as connection:
        api = Api(connection)
        owned = OwnedObjects(api, _FIELD_MANAGER)
        live = await _list_existing(api, {document["kind"] for document in documents})
        documents[-1] = _keep_completed_url(documents[-1], live.get(_identity(documents[-1])), url)
        applied = [
            await owned.ensure(
                _RESOURCES[document["kind"]], document, live.get(_identity(document))
            )
            for document in documents
        ]
        await _wait_until_established(
            api, [live_crd for live_crd in applied if live_crd["kind"] == _DEFINITION]
        )
    user = await asyncio.to_thread(cluster.user_kubeconfig, OPERATOR_USER)
    return InstalledOperator(user, extension.webhook_host, port, cluster.directory / "stores")


def _keep_completed_url(desired: Object, live: Object | None, root: str) -> Object:
    """The webhook configuration without a URL where an operator already completed it by a path.

    Applying the bare URL again would remove the path until the operator writes it back.
    """
    hooks = (live or {}).get("webhooks") or [{}]
    completed: str = (hooks[0].get("clientConfig") or {}).get("url", "")
    if not completed.startswith(root + webhook.PATH_PREFIX):
        return desired
    (hook,) = desired["webhooks"]
    return desired | {"webhooks": [hook | {"clientConfig": {}}]}


async def _list_existing(api: Api, kinds: set[str]) -> dict[_Identity, Object]:
    """The objects of an earlier installation, by one list request per kind.

    An object that lost the label counts as absent; applying it restores the label.
    """
    lists = [
        await api.list(_RESOURCES[kind], label_selector=_LABEL_SELECTOR) for kind in sorted(kinds)
    ]
    return {_identity(document): document for objects in lists for document in objects}


def _identity(document: Object) -> _Identity:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


async def _wait_until_established(api: Api, definitions: list[Object]) -> None:
    """Wait until every CRD has the condition Established."""
    try:
        async with asyncio.timeout(_ESTABLISH_SECONDS):
            for definition in definitions:
                name, live = definition["metadata"]["name"], definition
                while not _is_established(live):
                    await asyncio.sleep(0.05)
                    live = await api.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except TimeoutError as error:
        raise WindlassError(
            "NotEstablished", f"CRDs not established after {_ESTABLISH_SECONDS:g} s"
        ) from error


def _is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(row["type"] == "Established" and row["status"] == "True" for row in conditions)
