"""Plays the stories of the demo, one after the other, on one cluster.

Everything that is printed was observed. What was promised and not seen in time makes the
demo fail. Everything is left running to look around; playing again uses what is there.
What a story needs before it can begin is made while those before it are told.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

from windlass.dev.demo import ground as grounds
from windlass.dev.demo import mirroring, previewing, syncing
from windlass.dev.demo.ground import Ground
from windlass.dev.demo.telling import heading
from windlass.dev.progress import Progress

STORIES: tuple[ModuleType, ...] = (mirroring, syncing, previewing)


def run(progress: Progress, tell: Callable[[str], None]) -> bool:
    """Bring everything up and play all stories; whether all that was promised was seen."""
    ground = grounds.brought_up(progress)
    seen: list[bool] = []
    with ThreadPoolExecutor(len(STORIES)) as pool:
        prepared = [pool.submit(story.prepare, ground) for story in STORIES]
        for number, (story, ready) in enumerate(zip(STORIES, prepared, strict=True), 1):
            tell(heading(number, story.TITLE))
            ready.result()
            seen.append(story.play(ground, progress, tell))
    tell(_farewell(ground))
    return all(seen)


def down(progress: Progress) -> None:
    """End everything the demo left running."""
    grounds.down(progress)


def _farewell(ground: Ground) -> str:
    name = ground.desk.name
    return f"""
Everything is still running. To look around:

  eval "$(.venv/bin/windlass dev env --name {name} --user alice)"
  kubectl get windlass -A                  # everything that windlass looks after
  git --git-dir={ground.repository("infra")} log -p main
  tail {ground.desk.directory}/logs/operator.log

To stop and remove all of it: make demo-down
"""
