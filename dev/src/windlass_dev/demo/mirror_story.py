"""First story of the demo: changes in the cluster appear in Git, with their authors."""

from __future__ import annotations

import time
from dataclasses import dataclass

from windlass_dev.demo.demo_cluster import DemoCluster, indent, wait_for

TITLE = "A change by a user appears in Git under their name"

_REPOSITORY = "infra"
_FIRST_COMMIT_MARKER = "[SYNC]"
_LOG_FORMAT = "--format=commit %h%nAuthor: %an <%ae>%n%n    %s"


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One command of one person."""

    person: str
    """The user that the API server sees, and the author of the commit."""
    meaning: str
    """The narration."""
    command: str
    """The arguments of kubectl."""


STEPS = (
    StoryStep("alice", "creates a namespace for the shop", "create namespace shop"),
    StoryStep(
        "alice",
        "adds a greeting",
        "-n shop create configmap greeting '--from-literal=text=Good morning'",
    ),
    StoryStep(
        "bob",
        "changes the greeting",
        """-n shop patch configmap greeting -p '{"data":{"text":"Moin"}}'""",
    ),
    StoryStep(
        "bob",
        "adds a Secret; only keyed digests of its values leave the cluster",
        "-n shop create secret generic till --from-literal=pin=4711",
    ),
    StoryStep("alice", "deletes the greeting", "-n shop delete configmap greeting"),
)


def prepare(demo: DemoCluster) -> None:
    """Bind every person of the story to cluster-admin."""
    demo.apply("mirror-users.yaml")


def play(demo: DemoCluster) -> None:
    """Play the story; raise `DemoFailed` where a promise is not observed."""
    with demo.progress.step("waiting for the admission webhook, which identifies authors"):
        wait_for(
            lambda: demo.metric("windlass_mirror_authors_provable") == 1.0, "the admission webhook"
        )
    with demo.progress.step("applying what to mirror, and to which repository"):
        demo.apply("mirror.yaml", repository=_REPOSITORY)
        first = wait_for(lambda: _first_commit(demo), "the first commit")
    demo.echo(f"\n{first}\n")
    with demo.progress.step("removing what an earlier run left"):
        demo.kubectl("delete", "namespace", "shop", "--ignore-not-found")
    for step in STEPS:
        _run_step(demo, step)


def _run_step(demo: DemoCluster, step: StoryStep) -> None:
    """Run one command and print the commit that follows."""
    before = demo.head(_REPOSITORY)
    demo.echo(f"\n$ # {step.person}: {step.meaning}")
    started = time.monotonic()
    demo.show_kubectl(step.command, person=step.person)
    commit = wait_for(lambda: _find_commit(demo, before, step.person), f"a commit by {step.person}")
    demo.echo(f"  in Git {time.monotonic() - started:.2f} s after the command started:")
    demo.echo(indent(demo.git_log(_REPOSITORY, "-1", "-p", _LOG_FORMAT, commit)))


def _find_commit(demo: DemoCluster, before: str, person: str) -> str:
    """The newest commit of `person` since `before`; empty if there is none."""
    rows = demo.git_log(_REPOSITORY, "--format=%H %an", f"{before}..main").split("\n")
    matching = [row.partition(" ")[0] for row in rows if row.endswith(f" {person}")]
    return matching[0] if matching else ""


def _first_commit(demo: DemoCluster) -> str:
    """The root commit as `git log` prints it; empty until the first snapshot is pushed."""
    root = demo.git_log(_REPOSITORY, "--max-parents=0", "--format=%H", "main").strip()
    text = demo.git_log(_REPOSITORY, "-1", _LOG_FORMAT, "--shortstat", root) if root else ""
    return text if _FIRST_COMMIT_MARKER in text else ""
