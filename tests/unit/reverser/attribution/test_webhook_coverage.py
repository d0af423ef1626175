"""Whether admission calls come at all."""

from __future__ import annotations

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.webhook_coverage import (
    PATIENCE_SECONDS,
    WebhookCoverage,
    WebhookHealth,
)

CONFIG_MAP = Identity(GVR("", "v1", "configmaps"), "team", "one")


def _webhook_health() -> WebhookHealth:
    return WebhookHealth(WebhookCoverage(frozenset({"kube-system"})))


def test_nothing_is_known_at_first() -> None:
    """2.2: without a call and without five minutes of writes the state is unknown."""
    health = _webhook_health()
    assert health.is_receiving is None
    assert not health.record_write(CONFIG_MAP, 0.0)
    assert not health.record_write(CONFIG_MAP, PATIENCE_SECONDS - 1)
    assert health.is_receiving is None


def test_only_the_first_call_is_a_state_change() -> None:
    """Later calls change nothing."""
    health = _webhook_health()
    assert health.record_call()
    assert not health.record_call()
    assert health.is_receiving


def test_five_minutes_of_writes_without_a_call() -> None:
    """2.2: NoAdmissionCalls; the next call ends it."""
    health = _webhook_health()
    health.record_call()
    health.record_write(CONFIG_MAP, 100.0)
    assert health.record_write(CONFIG_MAP, 100.0 + PATIENCE_SECONDS)
    assert health.is_receiving is False
    assert not health.record_write(CONFIG_MAP, 1000.0)
    assert health.record_call()
    assert health.is_receiving


def test_one_write_without_a_call_proves_nothing() -> None:
    """A single change that was left out, and then silence, says nothing."""
    health = _webhook_health()
    health.record_write(CONFIG_MAP, 0.0)
    health.record_call()
    health.record_write(CONFIG_MAP, 10_000.0)
    assert health.is_receiving


def test_uncovered_writes_do_not_count() -> None:
    """Namespaces that the webhook leaves out, and what configures admission itself."""
    health = _webhook_health()
    system = Identity(CONFIG_MAP.gvr, "kube-system", "one")
    hooks = GVR("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
    for identity in (system, Identity(hooks, "", "hook")):
        health.record_write(identity, 0.0)
        health.record_write(identity, 10_000.0)
    assert health.is_receiving is None
