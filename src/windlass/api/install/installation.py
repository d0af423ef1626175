"""Names of the objects that an installation consists of.

They follow from release and namespace; manifests, the operator and its tests take them from here.

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
        """The ClusterRole that the operator gets inside a namespace it created."""
        return f"{self.release}-environment-manager"

    @property
    def environment_applier_role(self) -> str:
        """The ClusterRole that covers the kinds of a bundle."""
        return f"{self.release}-environment-applier"

    @property
    def operator_policy(self) -> str:
        """The ValidatingAdmissionPolicy for the operator; also a prefix of the other one."""
        return f"{self.release}-fence"

    @property
    def lease(self) -> str:
        return f"{self.release}-leader"

    @property
    def salt_secret(self) -> str:
        """The Secret with the salt of redacted values in the mirror."""
        return f"{self.release}-mirror-salt"

    @property
    def webhook_secret(self) -> str:
        """The Secret of the admission webhook: CA, server certificate and URL path."""
        return f"{self.release}-webhook"

    @property
    def leader_service(self) -> str:
        """The Service that selects the leader's pod alone."""
        return f"{self.release}-leader-only"

    @property
    def webhook_configuration(self) -> str:
        return f"{self.release}-validating-webhook-configuration"

    @property
    def service_account(self) -> Object:
        """The operator's ServiceAccount as an RBAC subject."""
        return {"kind": "ServiceAccount", "name": self.release, "namespace": self.namespace}
