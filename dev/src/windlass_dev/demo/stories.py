"""The demo: plays its stories one after the other on one cluster.

Everything that is printed was observed. A promise that is not observed in time makes the
demo fail. Everything is left running to explore; playing again uses what is there.
What a story needs before it can begin is prepared while the ones before it are played.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

from windlass_dev.demo import demo_cluster, environment_story, gateway_story, mirror_story
from windlass_dev.demo.demo_cluster import DemoCluster, story_heading
from windlass_dev.progress import ProgressReporter

STORIES: tuple[ModuleType, ...] = (mirror_story, gateway_story, environment_story)


def play_all(progress: ProgressReporter, tell: Callable[[str], None]) -> bool:
    """Bring everything up and play all stories; whether all that was promised was seen."""
    ground = demo_cluster.bring_up(progress)
    seen: list[bool] = []
    with ThreadPoolExecutor(len(STORIES)) as pool:
        prepared = [pool.submit(story.prepare, ground) for story in STORIES]
        for number, (story, ready) in enumerate(zip(STORIES, prepared, strict=True), 1):
            tell(story_heading(number, story.TITLE))
            ready.result()
            seen.append(story.play(ground, progress, tell))
    tell(_closing_text(ground))
    return all(seen)


def remove_all(progress: ProgressReporter) -> None:
    """End everything the demo left running."""
    demo_cluster.remove_cluster(progress)


def _closing_text(ground: DemoCluster) -> str:
    name = ground.cluster.name
    return f"""
Everything is still running. To look around:

  eval "$(.venv/bin/windlass dev env --name {name} --user alice)"
  kubectl get windlass -A                  # everything that windlass looks after
  git --git-dir={ground.repository("infra")} log -p main
  tail {ground.cluster.directory}/logs/operator.log

To stop and remove all of it: make demo-down
"""
