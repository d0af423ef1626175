"""Rules for annotations and labels that act outside of the namespace: they are removed.

Controllers, cloud providers and container runtimes read annotations: one line is enough to join
another network, to assume a cloud role, to get a public DNS name or a device of the node, or to
copy a Secret into another namespace or out of a vault. `sanitizer` applies the rules.

Labels, and annotations of trusted Environments, are kept but for DENIED_PREFIXES. So are those of
untrusted ones, except on pods, Services, ServiceAccounts and claims: these keep HARMLESS_PREFIXES
and keys without a domain.

What the administrator denies or allows comes first, in this order. An entry is a prefix of
keys; one with a domain holds for its subdomains too.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.environments.bundle.cluster_access import ClusterAccess

_NETWORKS = (
    "danm.k8s.io/",
    "ipam.antrea.io/",
    "ipam.cilium.io/",
    "ipam.spidernet.io/",
    "k8s.ovn.org/",
    "k8s.v1.cni.cncf.io/",
    "networking.gke.io/",
    "ovn.kubernetes.io/",
    "policy.cilium.io/",
    "projectcalico.org/",
    "v1.multus-cni.io/",
    "vpc.amazonaws.com/",
)
_ROLES = (
    "aadpodidbinding",
    "azure.workload.identity/",
    "conjur.org/",
    "eks.amazonaws.com/",
    "iam.amazonaws.com/",
    "iam.gke.io/",
    "pod-identity.alibabacloud.com/",
    "spiffe.io/",
    "vault.hashicorp.com/",
    "vault.security.banzaicloud.io/",
)
_EXPOSURE = (
    "alb.ingress.kubernetes.io/",
    "cloud.google.com/",
    "consul.hashicorp.com/",
    "controller.autoneg.dev/",
    "dns.alpha.kubernetes.io/",
    "external-dns.alpha.kubernetes.io/",
    "external-dns.kubernetes.io/",
    "getambassador.io/",
    "io.cilium/",
    "k8s.ngrok.com/",
    "kube-router.io/",
    "kube-vip.io/",
    "kubernetes.digitalocean.com/",
    "lbipam.cilium.io/",
    "load-balancer.hetzner.cloud/",
    "loadbalancer.openstack.org/",
    "metallb.io/",
    "metallb.universe.tf/",
    "mirror.linkerd.io/",
    "oci.oraclecloud.com/",
    "purelb.io/",
    "service.antrea.io/",
    "service.beta.kubernetes.io/",
    "service.cilium.io/",
    "service.cloud.tencent.com/",
    "service.kubernetes.io/ibm-",
    "service.kubernetes.io/loadbalance-",
    "service.kubernetes.io/qcloud-",
    "service.kubernetes.io/tke-",
    "skupper.io/",
    "tailscale.com/",
)
_NODES = (
    "cdi.k8s.io/",
    "dev.gvisor.",
    "devices.nri.io",
    "hooks.nri.io",
    "io.containerd.",
    "io.katacontainers.",
    "io.kubernetes.cri-o.",
    "io.kubernetes.cri.",
    "mounts.nri.io",
    "org.systemd.property.",
    "run.oci.",
)
_STORAGE = ("cdi.kubevirt.io/", "k8s.io/Clone", "nfs.io/", "sidecar.istio.io/userVolume")
_SECRETS = (
    "kubed.appscode.com/",
    "operator.1password.io/",
    "reflector.v1.k8s.emberstack.com/",
    "replicator.v1.mittwald.de/",
)

DENIED_PREFIXES = (*_NETWORKS, *_ROLES, *_EXPOSURE, *_NODES, *_STORAGE, *_SECRETS)
"""Annotations and labels that are known to act outside of the namespace."""

HARMLESS_PREFIXES = (
    "app.kubernetes.io/",
    "argocd.argoproj.io/",
    "checksum/",
    "container.apparmor.security.beta.kubernetes.io/",
    "helm.sh/",
    "kubectl.kubernetes.io/",
    "kubernetes.io/change-cause",
    "kubernetes.io/description",
    "meta.helm.sh/",
    "prometheus.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
"""Annotations that untrusted Environments keep, beside keys without a domain."""


def disallowed_annotations(
    keys: Iterable[str], access: ClusterAccess, *, trusted: bool
) -> list[str]:
    """The annotations that are removed."""
    return [key for key in keys if not _is_allowed(key, access, trusted=trusted)]


def disallowed_labels(keys: Iterable[str], access: ClusterAccess) -> list[str]:
    """The labels that are removed; all others stay, because selectors may need them."""
    return disallowed_annotations(keys, access, trusted=True)


def _is_allowed(key: str, access: ClusterAccess, *, trusted: bool) -> bool:
    if _is_listed(key, access.denied_annotations):
        return False
    if _is_listed(key, access.allowed_annotations):
        return True
    if _is_listed(key, DENIED_PREFIXES):
        return False
    return trusted or _is_listed(key, HARMLESS_PREFIXES) or _is_plain(key)


def _is_plain(key: str) -> bool:
    """Whether a key has no domain, in either notation: no controller of a vendor reads it."""
    return "/" not in key and "." not in key


def _is_listed(key: str, entries: Iterable[str]) -> bool:
    return any(key.startswith(entry) or ("/" in entry and f".{entry}" in key) for entry in entries)
