"""The webhook configuration as a manifest."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from windlass.api.install import webhook
from windlass.api.install.installation import Installation

HOSTS = ("windlass-leader-only.windlass-system.svc", "127.0.0.1", "::1")


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


def _registered(url: str | None = None, **changed: Any) -> dict[str, Any]:
    """The shipped webhook as an API server returns it, with its defaults, and with changes."""
    install = Installation()
    document = webhook.webhook_configuration(install.release, install.namespace, b"PEM", url)
    (hook,) = copy.deepcopy(document["webhooks"])
    if url is None:
        hook["clientConfig"]["service"]["path"] = webhook.PATH_PREFIX + "0" * 32
    return hook | {"objectSelector": {}} | changed


def _covers(hook: dict[str, Any]) -> bool:
    return webhook.covers_declared(hook, Installation(), HOSTS)


def _rule(**changed: Any) -> list[dict[str, Any]]:
    return [_registered()["rules"][0] | changed]


@pytest.mark.parametrize(
    "hook",
    [
        _registered(),
        _registered("https://127.0.0.1:9443/process-validating-webhook/0"),
        _registered("https://[::1]:9443"),
        _registered(rules=[*_rule(), *_rule(resources=["pods"])]),
        _registered(matchConditions=[]),
        _registered(namespaceSelector={}),
        _registered(timeoutSeconds=5, failurePolicy="Fail"),
    ],
)
def test_a_webhook_that_sends_as_much_covers_the_shipped_one(hook: dict[str, Any]) -> None:
    """Defaults of the API server, our path and a wider webhook make no difference."""
    assert _covers(hook)


@pytest.mark.parametrize(
    "changed",
    [
        {"rules": _rule(resources=["*"])},
        {"rules": _rule(operations=["CREATE", "UPDATE"])},
        {"rules": _rule(apiGroups=["apps"])},
        {"rules": _rule(scope="Namespaced")},
        {"rules": []},
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"matchConditions": [{"name": "nobody", "expression": "false"}]},
        {"matchPolicy": "Exact"},
        {"clientConfig": {"service": {"name": "other", "namespace": "windlass-system"}}},
        {"clientConfig": {"service": {"name": "windlass-leader-only", "namespace": "other"}}},
        {"clientConfig": {"url": "https://example.com:9443/"}},
        {"clientConfig": {"url": "https://[broken/"}},
        {"clientConfig": {}},
    ],
)
def test_a_webhook_that_sends_less_does_not_cover_the_shipped_one(changed: dict[str, Any]) -> None:
    """Neither does one that calls another server."""
    assert not _covers(_registered(**changed))
