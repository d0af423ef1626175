"""Names of the objects that an installation consists of.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.names import Object


@dataclass(frozen=True, slots=True)
class Installation:
    """A release in its namespace; every other name follows from these two."""

    release: str = "windlass"
    namespace: str = "windlass-system"

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "windlass",
            "app.kubernetes.io/instance": self.release,
        }

    @property
    def reverser_role(self) -> str:
        return f"{self.release}-reverser"

    @property
    def gateways_role(self) -> str:
        return f"{self.release}-gateways"

    @property
    def environments_role(self) -> str:
        return f"{self.release}-environments"

    @property
    def environment_manager_role(self) -> str:
        """The ClusterRole that the operator gets inside a namespace it made."""
        return f"{self.release}-environment-manager"

    @property
    def environment_applier_role(self) -> str:
        """The ClusterRole that covers what a bundle may hold."""
        return f"{self.release}-environment-applier"

    @property
    def operator_policy(self) -> str:
        return f"{self.release}-fence"

    @property
    def lease(self) -> str:
        return f"{self.release}-leader"

    @property
    def salt_secret(self) -> str:
        return f"{self.release}-mirror-salt"

    @property
    def webhook_secret(self) -> str:
        """The Secret with which admission requests are received: authority, leaf and path."""
        return f"{self.release}-webhook"

    @property
    def leader_service(self) -> str:
        return f"{self.release}-leader-only"

    @property
    def webhook_configuration(self) -> str:
        return f"{self.release}-validating-webhook-configuration"

    @property
    def service_account(self) -> Object:
        """The subject that acts, where nobody else is named."""
        return {"kind": "ServiceAccount", "name": self.release, "namespace": self.namespace}
