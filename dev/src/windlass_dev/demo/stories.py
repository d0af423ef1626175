"""The demo (`windlass dev demo`): plays its stories one after the other on one cluster.

Everything that is printed was observed. A promise that is not observed in time makes the
demo fail. Everything is left running to explore; playing again uses what is running.
What a story needs before it can begin is prepared while the earlier ones are played.

A story is a module with `TITLE`, `prepare(demo)` and `play(demo)`; its objects are in
`manifests`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType

from windlass.base.errors import WindlassError
from windlass_dev.demo import demo_cluster, environment_story, gateway_story, mirror_story
from windlass_dev.demo.demo_cluster import DemoCluster
from windlass_dev.progress import ProgressReporter

STORIES: tuple[ModuleType, ...] = (mirror_story, gateway_story, environment_story)


def play_all(progress: ProgressReporter, echo: Callable[[str], None]) -> bool:
    """Bring the cluster up and play all stories; return whether all promises were observed."""
    demo = demo_cluster.bring_up(progress, echo)
    with ThreadPoolExecutor(len(STORIES)) as pool:
        prepared = [pool.submit(story.prepare, demo) for story in STORIES]
        observed = [
            _play(demo, number, story, ready)
            for number, (story, ready) in enumerate(zip(STORIES, prepared, strict=True), 1)
        ]
    echo(_closing_text(demo))
    return all(observed)


def _play(demo: DemoCluster, number: int, story: ModuleType, prepared: Future[None]) -> bool:
    """Play one story; return whether everything it promises was observed."""
    heading = f"{number}  {story.TITLE}"
    demo.echo(f"\n{heading}\n{'─' * len(heading)}")
    try:
        prepared.result()
        story.play(demo)
    except WindlassError as error:
        demo.echo(f"  FAILED: {error.message}")
        return False
    return True


def remove_all(progress: ProgressReporter) -> None:
    """Remove everything that the demo left running."""
    demo_cluster.remove_cluster(progress)


def _closing_text(demo: DemoCluster) -> str:
    name = demo.cluster.name
    return f"""
Everything keeps running. To explore:

  eval "$(.venv/bin/windlass dev env --name {name} --user alice)"
  kubectl get windlass -A                  # all objects of windlass
  git --git-dir={demo.repository("infra")} log -p main
  tail {demo.cluster.directory}/logs/operator.log

To stop and remove all of it: make demo-down
"""
