"""Decodes pods, namespaces, policies from the JSON of the API server.

What cannot be decoded never opens a connection: an unreadable pod is unknown, an
unreadable policy denies everything to every pod in its namespace.

Pure.
"""

from __future__ import annotations

import ipaddress

import msgspec
from msgspec import Struct, field

from windlass_dev.netpol.policy_model import (
    ContainerPort,
    Labels,
    NetworkPolicy,
    PolicyPod,
    PolicySpec,
)


class _ObjectMetadata(Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: str = ""


class _ContainerSpec(Struct, frozen=True, rename="camel"):
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class _PodSpec(Struct, frozen=True, rename="camel"):
    containers: tuple[_ContainerSpec, ...] = ()
    init_containers: tuple[_ContainerSpec, ...] = ()
    host_network: bool = False


class _Address(Struct, frozen=True):
    ip: str = ""


class _PodAddresses(Struct, frozen=True, rename="camel"):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[_Address, ...] = field(default=(), name="podIPs")


class _PodObject(Struct, frozen=True):
    metadata: _ObjectMetadata
    spec: _PodSpec
    status: _PodAddresses = _PodAddresses()


class _NamespaceObject(Struct, frozen=True):
    metadata: _ObjectMetadata


class _PolicyObject(Struct, frozen=True):
    spec: PolicySpec


def decode_pod(raw: bytes) -> PolicyPod | None:
    """Decode a pod; None if it has no IPv4 address of its own, or none any more."""
    try:
        pod = msgspec.json.decode(raw, type=_PodObject)
    except msgspec.MsgspecError:
        return None
    address = _ipv4(pod.status)
    if not address or pod.spec.host_network or pod.status.phase in ("Succeeded", "Failed"):
        return None
    metadata = pod.metadata
    # Sidecars are init containers that keep running.
    sidecars = [
        container for container in pod.spec.init_containers if container.restart_policy == "Always"
    ]
    ports = tuple(
        port for container in (*pod.spec.containers, *sidecars) for port in container.ports
    )
    return PolicyPod(
        metadata.namespace,
        metadata.name,
        address,
        metadata.labels,
        ports,
        metadata.creation_timestamp,
    )


def decode_namespace_labels(raw: bytes) -> Labels:
    """Decode the labels of a namespace."""
    try:
        return msgspec.json.decode(raw, type=_NamespaceObject).metadata.labels
    except msgspec.MsgspecError:
        return {}


def decode_policy(namespace: str, raw: bytes) -> NetworkPolicy:
    """Decode a NetworkPolicy of `namespace`."""
    try:
        spec = msgspec.json.decode(raw, type=_PolicyObject).spec
    except msgspec.MsgspecError:
        spec = PolicySpec()
    return NetworkPolicy(namespace, spec)


def _ipv4(status: _PodAddresses) -> str:
    addresses = (status.pod_ip, *(address.ip for address in status.pod_ips))
    return next((address for address in addresses if _is_ipv4(address)), "")


def _is_ipv4(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False
