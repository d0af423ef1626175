"""The GVR of each built-in Kubernetes resource that windlass itself reads or writes.

Pure.
"""

from __future__ import annotations

from windlass.objects.names import GVR

_RBAC = "rbac.authorization.k8s.io"

CONFIG_MAPS = GVR("", "v1", "configmaps")
LIMIT_RANGES = GVR("", "v1", "limitranges")
NAMESPACES = GVR("", "v1", "namespaces")
PODS = GVR("", "v1", "pods")
REPLICATION_CONTROLLERS = GVR("", "v1", "replicationcontrollers")
RESOURCE_QUOTAS = GVR("", "v1", "resourcequotas")
SECRETS = GVR("", "v1", "secrets")
SERVICE_ACCOUNTS = GVR("", "v1", "serviceaccounts")
SERVICES = GVR("", "v1", "services")
VOLUME_CLAIMS = GVR("", "v1", "persistentvolumeclaims")

DAEMON_SETS = GVR("apps", "v1", "daemonsets")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
STATEFUL_SETS = GVR("apps", "v1", "statefulsets")
CRON_JOBS = GVR("batch", "v1", "cronjobs")
JOBS = GVR("batch", "v1", "jobs")
POD_AUTOSCALERS = GVR("autoscaling", "v2", "horizontalpodautoscalers")
POD_DISRUPTION_BUDGETS = GVR("policy", "v1", "poddisruptionbudgets")

API_SERVICES = GVR("apiregistration.k8s.io", "v1", "apiservices")
CUSTOM_RESOURCE_DEFINITIONS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")
EVENTS = GVR("events.k8s.io", "v1", "events")
LEASES = GVR("coordination.k8s.io", "v1", "leases")
NETWORK_POLICIES = GVR("networking.k8s.io", "v1", "networkpolicies")
SELF_SUBJECT_REVIEWS = GVR("authentication.k8s.io", "v1", "selfsubjectreviews")
STORAGE_CLASSES = GVR("storage.k8s.io", "v1", "storageclasses")

CLUSTER_ROLES = GVR(_RBAC, "v1", "clusterroles")
ROLE_BINDINGS = GVR(_RBAC, "v1", "rolebindings")
ROLES = GVR(_RBAC, "v1", "roles")

WEBHOOK_CONFIGURATIONS = GVR(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"
)
