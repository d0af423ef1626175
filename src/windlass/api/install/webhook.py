"""The ValidatingWebhookConfiguration through which the API server reports who makes a change.

The webhook only records: its failure policy is Ignore and its timeout one second, so a missing
or slow answer costs an author's name and never a write. Requests that cannot change a mirror, and
those of nodes, are filtered by the server itself and cost nothing.

| Request | Sent |
|---|---|
| no subresource | yes |
| UPDATE of a subresource other than `status` (`scale`, `resize`, `ephemeralcontainers`) | yes |
| UPDATE of `status` | if labels, annotations, finalizers or owners differ |
| CREATE of a subresource (`pods/binding`, `pods/eviction`) | no |

Requests that are not sent are never attributed: see `reverser.attribution.webhook_coverage`.

Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from urllib.parse import urlsplit

from windlass.api.install.installation import Installation
from windlass.objects.names import Object

PATH_PREFIX = "/process-validating-webhook/"
"""Prefix of every URL path; the rest is random, readable only with the configuration."""

WEBHOOK_NAME = "gitops-reverser.configbutler.ai"
PORT = 9443

LEADER_LABEL = {"role": "leader"}
"""Label that the leader sets on its own pod."""

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces whose requests are not sent, besides the operator's own."""

_OPTIONAL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def _differs(field: str) -> str:
    # An empty field is absent, and selecting it without `?` is an error: with the failure
    # policy Ignore an error leaves the request out.
    return f"object.?metadata.?{field} != oldObject.?metadata.?{field}"


_MATCH_CONDITIONS = (
    ("not-a-dry-run", "!has(request.dryRun) || !request.dryRun"),
    (
        "not-an-event",
        "request.resource.resource != 'events' "
        "|| !(request.resource.group in ['', 'events.k8s.io'])",
    ),
    (
        "not-a-lease",
        "request.resource.resource != 'leases' || request.resource.group != 'coordination.k8s.io'",
    ),
    (
        "not-a-review",
        "!(request.resource.group in ['authentication.k8s.io', 'authorization.k8s.io'])",
    ),
    (
        "not-a-node",
        "!request.userInfo.username.startsWith('system:node:') "
        "&& !(has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups)",
    ),
    (
        "may-change-what-is-mirrored",
        "!has(request.subResource) || request.subResource == '' "
        "|| (request.operation == 'UPDATE' && (request.subResource != 'status' || "
        + " || ".join(_differs(field) for field in _OPTIONAL_METADATA)
        + "))",
    ),
)


def webhook_configuration(
    release: str, namespace: str, ca_bundle: bytes, url: str | None
) -> Object:
    """The configuration; `url` is the root of a server outside the cluster, else the Service.

    It has no path, and without a `ca_bundle` no CA either: the operator fills in both when it
    serves, and applying this again removes neither.
    """
    installation = Installation(release, namespace)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": installation.webhook_configuration, "labels": installation.labels},
        "webhooks": [_webhook(installation, _client_config(installation, ca_bundle, url))],
    }


def leader_service(release: str, namespace: str) -> Object:
    """The Service that selects the leader of this release alone."""
    installation = Installation(release, namespace)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": installation.leader_service,
            "namespace": namespace,
            "labels": installation.labels,
        },
        "spec": {
            "selector": installation.labels | LEADER_LABEL,
            # Readiness is that of all capabilities; one that waits must not cut off admission.
            "publishNotReadyAddresses": True,
            "ports": [{"name": "admission", "port": 443, "targetPort": PORT}],
        },
    }


def covers_declared(hook: Object, installation: Installation, hosts: Collection[str]) -> bool:
    """Whether a registered webhook sends us every request that the declared one would send.

    `hosts` are the names and addresses that we serve, for a webhook with a URL. What the API
    server adds to a webhook makes no difference, and neither does one that sends more.
    """
    declared = _webhook(installation, {})
    rules = [{"scope": "*"} | rule for rule in hook.get("rules") or ()]
    namespaces = hook.get("namespaceSelector") or {}
    return (
        all(rule in rules for rule in declared["rules"])
        and namespaces in ({}, declared["namespaceSelector"])
        and not hook.get("objectSelector")
        # A condition that is missing sends more, one of another author leaves requests out.
        and all(one in declared["matchConditions"] for one in hook.get("matchConditions") or ())
        and hook.get("matchPolicy", declared["matchPolicy"]) == declared["matchPolicy"]
        and _calls_us(hook.get("clientConfig") or {}, installation, hosts)
    )


def _calls_us(client: Object, installation: Installation, hosts: Collection[str]) -> bool:
    if "url" in client:
        return _url_host(client["url"]) in {host.lower() for host in hosts}
    service = {"port": 443} | (client.get("service") or {})
    declared = _client_config(installation, b"", None)["service"]
    return all(service.get(field) == value for field, value in declared.items())


def _url_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _client_config(installation: Installation, ca_bundle: bytes, url: str | None) -> Object:
    endpoint: Object
    if url is None:
        service = {"name": installation.leader_service, "namespace": installation.namespace}
        endpoint = {"service": service | {"port": 443}}
    else:
        endpoint = {"url": url}
    trusted = {"caBundle": base64.b64encode(ca_bundle).decode("ascii")} if ca_bundle else {}
    return endpoint | trusted


def _webhook(installation: Installation, client: Object) -> Object:
    return {
        "name": WEBHOOK_NAME,
        "clientConfig": client,
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "rules": [
            {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*/*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "scope": "*",
            }
        ],
        "namespaceSelector": {
            "matchExpressions": [_outside_system_namespaces(installation.namespace)]
        },
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in _MATCH_CONDITIONS
        ],
    }


def _outside_system_namespaces(namespace: str) -> Object:
    return {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": [*SYSTEM_NAMESPACES, namespace],
    }
