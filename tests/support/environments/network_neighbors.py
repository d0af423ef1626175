"""Network peers of previews on a node: a few that they may reach, most they must not.

Public and private addresses outside the cluster are assigned to the node itself, in the
cluster's own network; traffic of pods to them is filtered like any other egress.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

from tests.support.cluster import control_plane as support
from tests.support.cluster import node as nodes
from tests.support.cluster import pod_network
from tests.support.cluster.pod_network import PodNetwork
from tests.support.processes.operator import eventually
from windlass_dev.cluster import cluster_state
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node import kernel_namespaces, system
from windlass_dev.node.allocation import Slot

PUBLIC = "203.0.113.7"
METADATA = "169.254.169.254"
PRIVATE = ("10.77.0.1", "172.16.77.1", "192.168.77.1")
WEB, OTHER, DNS = 443, 8443, 53


@dataclass(frozen=True)
class NetworkNeighbors:
    """A DNS server, a pod without isolation, a listener on the machine, and addresses outside."""

    slot: Slot
    dns: PodNetwork
    stranger: PodNetwork
    machine_port: int

    @classmethod
    def start(cls, cluster: LocalCluster, stack: contextlib.ExitStack) -> NetworkNeighbors:
        """Start all of them; they end with the stack and the cluster."""
        state = cluster_state.load_state(cluster.directory)
        assert state is not None
        assert state.node is not None
        enter = kernel_namespaces.enter_command(cluster.directory)
        for address in (PUBLIC, METADATA, *PRIVATE):
            system.run_command(*enter, "ip", "address", "add", f"{address}/32", "dev", "lo")
        slot = Slot(state.node.slot)
        node = PodNetwork(
            "node", slot.node_address, kernel_namespaces.network_file(cluster.directory)
        )
        stack.enter_context(node.listening(WEB, OTHER))
        plain = stack.enter_context(support.fresh_namespace(cluster))
        account = f"/api/v1/namespaces/{plain}/serviceaccounts/default"
        eventually(lambda: cluster.api.request(account).ok, "the default ServiceAccount")
        dns = pod_network.run_pod(cluster, "kube-system", "dns", labels={"k8s-app": "kube-dns"})
        stack.enter_context(dns.echoing(DNS))
        stranger = pod_network.run_pod(cluster, plain, "stranger")
        machine = stack.enter_context(socket.create_server((cluster.host, 0)))
        return cls(slot, dns, stranger, int(machine.getsockname()[1]))

    def forbidden(self) -> dict[str, tuple[str, int]]:
        """Addresses that no preview may reach, by what they are."""
        return {
            "the API server": (self.slot.node_address, 6443),
            "the API server as a service": (self.slot.service_address, 443),
            "the kubelet": (self.slot.node_address, 10250),
            "the machine": (self.slot.host_address, self.machine_port),
            "a cloud's metadata": (METADATA, WEB),
            "a public address on another port": (PUBLIC, OTHER),
            **{f"private {address}": (address, WEB) for address in PRIVATE},
        }

    def reached_by(self, pod: PodNetwork) -> set[str]:
        """Which of the forbidden addresses a pod reaches."""
        return {
            name for name, (address, port) in self.forbidden().items() if pod.reaches(address, port)
        }


def serving_manifest(image: str = nodes.IMAGE, *, script: str = "", probe_delay: int = 0) -> str:
    """A web server without resource requests, run as an unprivileged user, and its Service."""
    command = script or "echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      securityContext: {{runAsUser: 1000}}
      containers:
      - name: main
        image: {image}
        imagePullPolicy: Never
        command: [sh, -c, "{command}"]
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe:
          httpGet: {{path: /index.html, port: http}}
          periodSeconds: 1
          initialDelaySeconds: {probe_delay}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: http}}]}}
"""
