"""First story: what people change in the cluster appears in Git, under their names."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass

from windlass.base.errors import WindlassError
from windlass.dev.demo.ground import Ground, awaited
from windlass.dev.demo.telling import indented
from windlass.dev.progress import Progress

TITLE = "A person's change appears in Git under their name"

_REPOSITORY = "infra"
_NAMESPACE = "shop"
_FIRST_COMMIT = "[SYNC]"
_OBJECTS = """
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
        ("create", "namespace", _NAMESPACE),
    ),
    Step(
        "alice",
        "writes down how it greets",
        ("-n", _NAMESPACE, "create", "configmap", "greeting", "--from-literal=text=Good morning"),
    ),
    Step(
        "bob",
        "finds that too stiff",
        ("-n", _NAMESPACE, "patch", "configmap", "greeting", "-p", '{"data":{"text":"Moin"}}'),
    ),
    Step(
        "bob",
        "keeps a secret, of which only a keyed digest leaves the cluster",
        ("-n", _NAMESPACE, "create", "secret", "generic", "till", "--from-literal=pin=4711"),
    ),
    Step(
        "alice",
        "takes the greeting down",
        ("-n", _NAMESPACE, "delete", "configmap", "greeting"),
    ),
)


def prepare(ground: Ground) -> None:
    """Let both people do everything."""
    for person in sorted({step.person for step in STEPS}):
        ground.kubectl("apply", "-f", "-", stdin=_admin_binding(person))


def play(ground: Ground, progress: Progress, tell: Callable[[str], None]) -> bool:
    """Tell the story; whether everything that was promised was seen."""
    with progress.step("waiting until authors can be proven"):
        awaited(lambda: ground.metric("windlass_mirror_authors_provable") == 1.0, "the witness")
    with progress.step("telling windlass what to mirror, and where to"):
        ground.kubectl("apply", "-f", "-", stdin=_objects(ground))
        first = awaited(lambda: _oldest(ground), "the first commit")
    tell(f"\n{first}\n")
    with progress.step("clearing away what an earlier run left"):
        ground.kubectl("delete", "namespace", _NAMESPACE, "--ignore-not-found")
    seen = [_step(ground, step, tell) for step in STEPS]
    return all(seen)


def _admin_binding(person: str) -> str:
    return (
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,"
        f" metadata: {{name: demo-{person}}},"
        " roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},"
        f" subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {person}}}]}}"
    )


def _objects(ground: Ground) -> str:
    password = ground.password_file.read_text()
    return _OBJECTS.format(url=ground.url(_REPOSITORY), password=password)


def _step(ground: Ground, step: Step, tell: Callable[[str], None]) -> bool:
    """One person does one thing; the commit that follows is told."""
    before = ground.log(_REPOSITORY, "--format=%H", "-1", "main").strip()
    tell(f"\n$ # {step.person}: {step.meaning}\n$ {step.command}")
    began = time.monotonic()
    tell(ground.kubectl(*step.arguments, person=step.person).strip())
    try:
        commit = awaited(lambda: _after(ground, before, step), f"a commit by {step.person}")
    except WindlassError as error:
        tell(f"  NOT SEEN: {error.message}")
        return False
    tell(f"  seen in Git {time.monotonic() - began:.2f} s after the command began:")
    shown = "commit %h%nAuthor: %an <%ae>%n%n    %s"
    tell(indented(ground.log(_REPOSITORY, "-1", "-p", f"--format={shown}", commit)))
    return True


def _after(ground: Ground, before: str, step: Step) -> str:
    """The newest commit since `before`, if it is by the person of the step."""
    rows = ground.log(_REPOSITORY, "--format=%H %an", f"{before}..main").split("\n")
    mine = [row.partition(" ")[0] for row in rows if row.endswith(f" {step.person}")]
    return mine[0] if mine else ""


def _oldest(ground: Ground) -> str:
    """The commit that everything began with."""
    root = ground.log(_REPOSITORY, "--max-parents=0", "--format=%H", "main").strip()
    if not root:
        return ""
    shown = "commit %h%nAuthor: %an <%ae>%n%n    %s%n"
    text = ground.log(_REPOSITORY, "-1", f"--format={shown}", "--shortstat", root)
    return text if _FIRST_COMMIT in text else ""
