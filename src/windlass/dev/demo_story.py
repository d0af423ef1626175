"""The story of the demo: what is mirrored, and what two people do."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

FIRST_COMMIT = "[SYNC]"
NAMESPACE = "shop"

OBJECTS = """
apiVersion: v1
kind: Secret
metadata: {{name: infra-git, namespace: windlass-system}}
stringData: {{username: git, password: "{password}"}}
---
apiVersion: configbutler.ai/v1alpha1
kind: GitRepoConfig
metadata: {{name: infra, namespace: windlass-system}}
spec:
  repoUrl: {url}
  allowedBranches: [main]
  secretRef: {{name: infra-git}}
---
apiVersion: configbutler.ai/v1alpha1
kind: GitDestination
metadata: {{name: demo, namespace: windlass-system}}
spec: {{repoRef: {{name: infra}}, branch: main, baseFolder: clusters/demo}}
---
apiVersion: configbutler.ai/v1alpha1
kind: ClusterWatchRule
metadata: {{name: everything}}
spec:
  destinationRef: {{name: demo, namespace: windlass-system}}
  rules: [{{scope: Namespaced}}, {{scope: Cluster}}, {{scope: Cluster, resources: [namespaces]}}]
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing one person does."""

    person: str
    meaning: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        return shlex.join(("kubectl", *self.arguments))


STEPS = (
    Step(
        "alice",
        "makes a place for a shop",
        ("create", "namespace", NAMESPACE),
    ),
    Step(
        "alice",
        "writes down how it greets",
        ("-n", NAMESPACE, "create", "configmap", "greeting", "--from-literal=text=Good morning"),
    ),
    Step(
        "bob",
        "finds that too stiff",
        ("-n", NAMESPACE, "patch", "configmap", "greeting", "-p", '{"data":{"text":"Moin"}}'),
    ),
    Step(
        "alice",
        "deploys the shop",
        ("-n", NAMESPACE, "create", "deployment", "web", "--image=registry.invalid/shop:1"),
    ),
    Step(
        "bob",
        "expects many customers",
        ("-n", NAMESPACE, "scale", "deployment", "web", "--replicas=3"),
    ),
    Step(
        "bob",
        "keeps a secret, of which only a keyed digest leaves the cluster",
        ("-n", NAMESPACE, "create", "secret", "generic", "till", "--from-literal=pin=4711"),
    ),
    Step(
        "alice",
        "closes the shop",
        ("-n", NAMESPACE, "delete", "deployment", "web"),
    ),
)
