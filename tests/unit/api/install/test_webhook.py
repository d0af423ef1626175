"""The webhook configuration as a manifest."""

from __future__ import annotations

import base64

from windlass.api.install import webhook


def test_in_a_cluster_the_leader_service_is_called() -> None:
    """Without a URL the Service of the release is named, and an unknown CA omitted."""
    document = webhook.webhook_configuration("windlass", "windlass-system", b"", None)
    assert document["metadata"]["name"] == "windlass-validating-webhook-configuration"
    (hook,) = document["webhooks"]
    assert hook["name"] == "gitops-reverser.configbutler.ai"
    assert hook["clientConfig"] == {
        "service": {
            "name": "windlass-leader-only",
            "namespace": "windlass-system",
            "port": 443,
        }
    }


def test_on_a_local_cluster_a_url_is_called() -> None:
    """It is that of the server, with its CA."""
    (hook,) = webhook.webhook_configuration("w", "n", b"PEM", "https://127.0.0.1:9443")["webhooks"]
    assert hook["clientConfig"] == {
        "url": "https://127.0.0.1:9443",
        "caBundle": base64.b64encode(b"PEM").decode(),
    }


def test_it_can_never_block_a_write() -> None:
    """Failure is ignored, the deadline is one second, there are no side effects."""
    (hook,) = webhook.webhook_configuration("w", "n", b"", None)["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] == 1
    assert hook["sideEffects"] == "None"
    assert hook["rules"][0]["resources"] == ["*/*"]
    values = hook["namespaceSelector"]["matchExpressions"][0]["values"]
    assert values == ["kube-system", "kube-public", "kube-node-lease", "n"]


def test_service_selects_the_leader_of_this_release() -> None:
    """The Service does not match leader pods of other releases."""
    selector = webhook.leader_service("w", "n")["spec"]["selector"]
    assert selector == {
        "app.kubernetes.io/name": "windlass",
        "app.kubernetes.io/instance": "w",
        "role": "leader",
    }
