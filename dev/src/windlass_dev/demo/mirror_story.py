"""First story of the demo: changes in the cluster appear in Git, with their authors."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass

from windlass.base.errors import WindlassError
from windlass_dev.demo.demo_cluster import DemoCluster, indent, wait_for
from windlass_dev.progress import ProgressReporter

TITLE = "A person's change appears in Git under their name"

_REPOSITORY = "infra"
_NAMESPACE = "shop"
_FIRST_COMMIT_MARKER = "[SYNC]"
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
class StoryStep:
    """One thing one person does."""

    person: str
    meaning: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        return shlex.join(("kubectl", *self.arguments))


STEPS = (
    StoryStep(
        "alice",
        "makes a place for a shop",
        ("create", "namespace", _NAMESPACE),
    ),
    StoryStep(
        "alice",
        "writes down how it greets",
        ("-n", _NAMESPACE, "create", "configmap", "greeting", "--from-literal=text=Good morning"),
    ),
    StoryStep(
        "bob",
        "finds that too stiff",
        ("-n", _NAMESPACE, "patch", "configmap", "greeting", "-p", '{"data":{"text":"Moin"}}'),
    ),
    StoryStep(
        "bob",
        "keeps a secret, of which only a keyed digest leaves the cluster",
        ("-n", _NAMESPACE, "create", "secret", "generic", "till", "--from-literal=pin=4711"),
    ),
    StoryStep(
        "alice",
        "takes the greeting down",
        ("-n", _NAMESPACE, "delete", "configmap", "greeting"),
    ),
)


def prepare(ground: DemoCluster) -> None:
    """Let both people do everything."""
    for person in sorted({step.person for step in STEPS}):
        ground.kubectl("apply", "-f", "-", stdin=_admin_binding(person))


def play(ground: DemoCluster, progress: ProgressReporter, tell: Callable[[str], None]) -> bool:
    """Tell the story; whether everything that was promised was seen."""
    with progress.step("waiting until authors can be proven"):
        wait_for(lambda: ground.metric("windlass_mirror_authors_provable") == 1.0, "the witness")
    with progress.step("telling windlass what to mirror, and where to"):
        ground.kubectl("apply", "-f", "-", stdin=_objects(ground))
        first = wait_for(lambda: _first_commit(ground), "the first commit")
    tell(f"\n{first}\n")
    with progress.step("clearing away what an earlier run left"):
        ground.kubectl("delete", "namespace", _NAMESPACE, "--ignore-not-found")
    seen = [_run_step(ground, step, tell) for step in STEPS]
    return all(seen)


def _admin_binding(person: str) -> str:
    return (
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,"
        f" metadata: {{name: demo-{person}}},"
        " roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},"
        f" subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {person}}}]}}"
    )


def _objects(ground: DemoCluster) -> str:
    password = ground.password_file.read_text()
    return _OBJECTS.format(url=ground.url(_REPOSITORY), password=password)


def _run_step(ground: DemoCluster, step: StoryStep, tell: Callable[[str], None]) -> bool:
    """One person does one thing; the commit that follows is told."""
    before = ground.git_log(_REPOSITORY, "--format=%H", "-1", "main").strip()
    tell(f"\n$ # {step.person}: {step.meaning}\n$ {step.command}")
    began = time.monotonic()
    tell(ground.kubectl(*step.arguments, person=step.person).strip())
    try:
        commit = wait_for(lambda: _find_commit(ground, before, step), f"a commit by {step.person}")
    except WindlassError as error:
        tell(f"  NOT SEEN: {error.message}")
        return False
    tell(f"  seen in Git {time.monotonic() - began:.2f} s after the command began:")
    shown = "commit %h%nAuthor: %an <%ae>%n%n    %s"
    tell(indent(ground.git_log(_REPOSITORY, "-1", "-p", f"--format={shown}", commit)))
    return True


def _find_commit(ground: DemoCluster, before: str, step: StoryStep) -> str:
    """The newest commit since `before`, if it is by the person of the step."""
    rows = ground.git_log(_REPOSITORY, "--format=%H %an", f"{before}..main").split("\n")
    mine = [row.partition(" ")[0] for row in rows if row.endswith(f" {step.person}")]
    return mine[0] if mine else ""


def _first_commit(ground: DemoCluster) -> str:
    """The commit that everything began with."""
    root = ground.git_log(_REPOSITORY, "--max-parents=0", "--format=%H", "main").strip()
    if not root:
        return ""
    shown = "commit %h%nAuthor: %an <%ae>%n%n    %s%n"
    text = ground.git_log(_REPOSITORY, "-1", f"--format={shown}", "--shortstat", root)
    return text if _FIRST_COMMIT_MARKER in text else ""
