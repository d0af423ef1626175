"""The programs of a cluster, and helm, with the one accepted version of each.

Two tables: from which Go package each program is built and with which arguments it prints
its version; which Debian packages contain the programs of the container runtime.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KUBERNETES_VERSION = "v1.35.4"
ETCD_VERSION = "3.6.16"
HELM_VERSION = "v3.20.2"

BUNDLE = f"kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"
"""The name under which a set of these exact versions is cached."""

_VERSION_PACKAGE = "k8s.io/component-base/version"
_HELM_VERSION_NAME = "helm.sh/helm/v3/internal/version.version"
_VERSION_LINE = re.compile(
    r"^(?:etcd Version|Client Version|Kubernetes|Helm):?\s+(?P<version>v?\d+\.\d+\.\d+\S*)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One program: its exact version, and how it is built."""

    name: str
    """The name of the executable."""
    version: str
    """The only accepted version, as the program prints it."""
    module: str
    """The directory of its Go module below `toolchain/`."""
    package: str
    """The Go package that is built."""
    version_arguments: tuple[str, ...] = ("--version",)
    """Arguments that print the version; empty for a program of our own."""
    bundle: str = BUNDLE
    """The directory of the cache that contains it."""

    @property
    def is_built_only(self) -> bool:
        """Whether it is a program of our own, which PATH or a named directory cannot contain."""
        return not self.version_arguments


ETCD = Tool("etcd", ETCD_VERSION, "etcd", "go.etcd.io/etcd/server/v3")
API_SERVER = Tool(
    "kube-apiserver", KUBERNETES_VERSION, "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"
)
CONTROLLER_MANAGER = Tool(
    "kube-controller-manager",
    KUBERNETES_VERSION,
    "kubernetes",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
)
KUBECTL = Tool(
    "kubectl",
    KUBERNETES_VERSION,
    "kubernetes",
    "k8s.io/kubernetes/cmd/kubectl",
    ("version", "--client"),
)

SCHEDULER = Tool(
    "kube-scheduler", KUBERNETES_VERSION, "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"
)
KUBELET = Tool("kubelet", KUBERNETES_VERSION, "kubernetes", "k8s.io/kubernetes/cmd/kubelet")
PROXY = Tool("kube-proxy", KUBERNETES_VERSION, "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy")
PAUSE = Tool("pause", "1", "pause", "windlass.dev/pause", ())
HELM = Tool(
    "helm",
    HELM_VERSION,
    "helm",
    "helm.sh/helm/v3/cmd/helm",
    ("version", "--template", "Helm {{.Version}}"),
    bundle=f"helm-{HELM_VERSION}",
)
"""Renders charts; no cluster needs it, so none waits for its build."""

CONTROL_PLANE_TOOLS = (ETCD, API_SERVER, CONTROLLER_MANAGER, KUBECTL)
NODE_TOOLS = (SCHEDULER, KUBELET, PROXY, PAUSE)
"""The additional programs of a cluster with a node."""


@dataclass(frozen=True, slots=True)
class PackagedSet:
    """Programs that are provided together, in any version, and the Debian packages of them."""

    name: str
    """Its name in the cache and in reports."""
    programs: tuple[str, ...]
    """The names of the executables."""
    packages: tuple[str, ...]
    """The Debian packages that contain them."""
    directories: tuple[str, ...] = ()
    """Where a machine has them installed, all in one of these; empty for PATH."""
    unpacked: str = "run"
    """Their directory below the unpacked set."""


RUNTIME_SETS = (
    PackagedSet("containerd", ("containerd", "ctr", "containerd-shim-runc-v2"), ("containerd",)),
    PackagedSet("runc", ("runc",), ("runc",)),
    PackagedSet("iptables", ("iptables", "iptables-save", "iptables-restore"), ("iptables",)),
)
CNI_PLUGINS = PackagedSet(
    "cni",
    ("ptp", "host-local", "portmap", "loopback"),
    ("containernetworking-plugins",),
    directories=("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"),
    unpacked="usr/lib/cni",
)


def parse_version(output: str) -> str | None:
    """The version in the output of a program; None if there is none in a known form."""
    match = _VERSION_LINE.search(output)
    return match["version"] if match else None


def link_flags(tool: Tool) -> str:
    """The linker flags; without them Kubernetes reports version v0.0.0, helm v3.20."""
    if tool is HELM:
        return f"-s -w -X {_HELM_VERSION_NAME}={tool.version}"
    if tool.module != "kubernetes":
        return "-s -w"
    major, minor, _ = tool.version.removeprefix("v").split(".")
    values = {"gitVersion": tool.version, "gitMajor": major, "gitMinor": minor}
    settings = [f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items()]
    return " ".join(["-s -w", *settings])


def build_arguments(tool: Tool, output: str) -> list[str]:
    """The arguments of `go` that build `tool` into `output`."""
    return ["build", "-trimpath", "-ldflags", link_flags(tool), "-o", output, tool.package]
