"""First story of the demo: changes in the cluster appear in Git, with their authors."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass

from windlass.base.errors import WindlassError
from windlass_dev.demo.demo_cluster import DemoCluster, indent, wait_for
from windlass_dev.progress import ProgressReporter

TITLE = "A change by a user appears in Git under their name"

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
    """One kubectl command of one person."""

    person: str
    """The user that the API server sees, and the author of the commit."""
    meaning: str
    """The narration."""
    arguments: tuple[str, ...]
    """Of kubectl."""

    @property
    def command(self) -> str:
        """The command line, for printing."""
        return shlex.join(("kubectl", *self.arguments))


STEPS = (
    StoryStep(
        "alice",
        "creates a namespace for the shop",
        ("create", "namespace", _NAMESPACE),
    ),
    StoryStep(
        "alice",
        "adds a greeting",
        ("-n", _NAMESPACE, "create", "configmap", "greeting", "--from-literal=text=Good morning"),
    ),
    StoryStep(
        "bob",
        "changes the greeting",
        ("-n", _NAMESPACE, "patch", "configmap", "greeting", "-p", '{"data":{"text":"Moin"}}'),
    ),
    StoryStep(
        "bob",
        "adds a Secret; only keyed digests of its values leave the cluster",
        ("-n", _NAMESPACE, "create", "secret", "generic", "till", "--from-literal=pin=4711"),
    ),
    StoryStep(
        "alice",
        "deletes the greeting",
        ("-n", _NAMESPACE, "delete", "configmap", "greeting"),
    ),
)


def prepare(demo: DemoCluster) -> None:
    """Bind every person of the story to cluster-admin."""
    for person in sorted({step.person for step in STEPS}):
        demo.kubectl("apply", "-f", "-", stdin=_admin_binding(person))


def play(demo: DemoCluster, progress: ProgressReporter, echo: Callable[[str], None]) -> bool:
    """Play the story; return whether everything it promises was observed."""
    with progress.step("waiting for the admission webhook, which identifies authors"):
        wait_for(
            lambda: demo.metric("windlass_mirror_authors_provable") == 1.0, "the admission webhook"
        )
    with progress.step("applying what to mirror, and to which repository"):
        demo.kubectl("apply", "-f", "-", stdin=_objects(demo))
        first = wait_for(lambda: _first_commit(demo), "the first commit")
    echo(f"\n{first}\n")
    with progress.step("removing what an earlier run left"):
        demo.kubectl("delete", "namespace", _NAMESPACE, "--ignore-not-found")
    observed = [_run_step(demo, step, echo) for step in STEPS]
    return all(observed)


def _admin_binding(person: str) -> str:
    return (
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,"
        f" metadata: {{name: demo-{person}}},"
        " roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},"
        f" subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {person}}}]}}"
    )


def _objects(demo: DemoCluster) -> str:
    password = demo.password_file.read_text()
    return _OBJECTS.format(url=demo.url(_REPOSITORY), password=password)


def _run_step(demo: DemoCluster, step: StoryStep, echo: Callable[[str], None]) -> bool:
    """Run one command and print the commit that follows; False if none came in time."""
    before = demo.git_log(_REPOSITORY, "--format=%H", "-1", "main").strip()
    echo(f"\n$ # {step.person}: {step.meaning}\n$ {step.command}")
    started = time.monotonic()
    echo(demo.kubectl(*step.arguments, person=step.person).strip())
    try:
        commit = wait_for(lambda: _find_commit(demo, before, step), f"a commit by {step.person}")
    except WindlassError as error:
        echo(f"  NOT OBSERVED: {error.message}")
        return False
    echo(f"  in Git {time.monotonic() - started:.2f} s after the command started:")
    log_format = "commit %h%nAuthor: %an <%ae>%n%n    %s"
    echo(indent(demo.git_log(_REPOSITORY, "-1", "-p", f"--format={log_format}", commit)))
    return True


def _find_commit(demo: DemoCluster, before: str, step: StoryStep) -> str:
    """The newest commit since `before` by the person of the step; empty if there is none."""
    rows = demo.git_log(_REPOSITORY, "--format=%H %an", f"{before}..main").split("\n")
    matching = [row.partition(" ")[0] for row in rows if row.endswith(f" {step.person}")]
    return matching[0] if matching else ""


def _first_commit(demo: DemoCluster) -> str:
    """The root commit as `git log` prints it; empty until the first snapshot is pushed."""
    root = demo.git_log(_REPOSITORY, "--max-parents=0", "--format=%H", "main").strip()
    if not root:
        return ""
    log_format = "commit %h%nAuthor: %an <%ae>%n%n    %s%n"
    text = demo.git_log(_REPOSITORY, "-1", f"--format={log_format}", "--shortstat", root)
    return text if _FIRST_COMMIT_MARKER in text else ""
