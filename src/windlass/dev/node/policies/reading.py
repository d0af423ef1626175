"""Reads pods, namespaces, policies from what the API server sent.

Pure. What cannot be read never opens a door: an unreadable pod is unknown, an unreadable
policy denies everything to everybody in its namespace.
"""

from __future__ import annotations

import ipaddress

import msgspec
from msgspec import Struct, field

from windlass.dev.node.policies.seen import ContainerPort, Labels, Pod, Policy, Spec


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: str = ""


class _Container(Struct, frozen=True, rename="camel"):
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class _PodSpec(Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    host_network: bool = False


class _Address(Struct, frozen=True):
    ip: str = ""


class _PodStatus(Struct, frozen=True, rename="camel"):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[_Address, ...] = field(default=(), name="podIPs")


class _PodObject(Struct, frozen=True):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class _Named(Struct, frozen=True):
    metadata: _Metadata


class _PolicyObject(Struct, frozen=True):
    spec: Spec


def pod(raw: bytes) -> Pod | None:
    """The pod in `raw`; None if it has no IPv4 address that is its own now."""
    try:
        found = msgspec.json.decode(raw, type=_PodObject)
    except msgspec.MsgspecError:
        return None
    address = _ipv4(found.status)
    if not address or found.spec.host_network or found.status.phase in ("Succeeded", "Failed"):
        return None
    about = found.metadata
    # Sidecars are init containers that stay.
    stay = [one for one in found.spec.init_containers if one.restart_policy == "Always"]
    ports = tuple(port for one in (*found.spec.containers, *stay) for port in one.ports)
    return Pod(about.namespace, about.name, address, about.labels, ports, about.creation_timestamp)


def namespace(raw: bytes) -> Labels:
    """The labels of the namespace in `raw`."""
    try:
        return msgspec.json.decode(raw, type=_Named).metadata.labels
    except msgspec.MsgspecError:
        return {}


def policy(namespace: str, raw: bytes) -> Policy:
    """The policy in `raw`."""
    try:
        spec = msgspec.json.decode(raw, type=_PolicyObject).spec
    except msgspec.MsgspecError:
        spec = Spec()
    return Policy(namespace, spec)


def _ipv4(status: _PodStatus) -> str:
    known = (status.pod_ip, *(one.ip for one in status.pod_ips))
    return next((one for one in known if _is_ipv4(one)), "")


def _is_ipv4(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False
