"""Renders a chart with `helm template`, in a confined child and a directory for it alone.

The child has no network, no cluster, no plugins, no repositories: `lookup` and
`getHostByName` find nothing, dependencies are those in `charts/`. Hooks are part of the
output, with their annotations; the directory `crds/` is not. A chart is rendered twice:
where the two outputs differ, its own functions generated something.
The directory is gone afterwards; one that a killed operator left is removed at the start.

A few are rendered at a time. A reconcile that would wait long for that is requeued: waiting here
serves no one, and slow charts of one project would soon occupy all workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from windlass.base import redaction, tasks
from windlass.base.errors import Retryable, Stalled, Waiting
from windlass.base.safe_directory import SafeDirectory
from windlass.environments.render import helm_command
from windlass.environments.render.helm_command import Release
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.sandbox import child
from windlass.environments.render.sandbox.child import RenderLimits
from windlass.git import environment
from windlass.git.environment import PrivateDirectory

_CHART = "chart"
_MAX_RENDERS = 4
_LONGEST_WAIT_SECONDS = 2.0
_REQUEUE_SECONDS = 5.0
_PATH_ERRORS = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP)


class Helm:
    """One helm program, and how much each of its renders may take.

    `program` is a path, or a name on PATH; empty where charts shall not be rendered.
    `directory` is where the directories of renders are made; it is ours alone.
    """

    def __init__(self, program: str, limits: RenderLimits, directory: Path) -> None:
        self._program = program
        self._limits = limits
        self._directory = environment.private_base(directory)
        environment.remove_leftovers(self._directory)
        # More at once would only wait for each other, while their deadlines run.
        self._slots = asyncio.Semaphore(min(_MAX_RENDERS, os.cpu_count() or 1))

    async def template(
        self, chart: Mapping[str, bytes], values: Sequence[bytes], release: Release
    ) -> tuple[bytes, bytes]:
        """The objects of a chart, as YAML, rendered twice.

        `chart` maps paths relative to the chart's root to contents; `values` are YAML or JSON
        files, later ones win. Raises RenderRefused("RenderFailed" | "RenderTooLarge") for what
        the project did wrong, Stalled("SandboxUnavailable") where the child cannot be confined
        or helm is not there, Retryable of the same reason where there is no room
        for files or a process, Waiting("RenderUnavailable") where others come first.
        """
        program = await asyncio.to_thread(self._program_path)
        names = [f"values-{number}.yaml" for number in range(len(values))]
        files = {f"{_CHART}/{path}": content for path, content in chart.items()}
        files |= dict(zip(names, values, strict=True))
        command = [program, *helm_command.template_arguments(release, chart=_CHART, values=names)]
        # One turn for both: waiting for a second one would throw the first output away.
        async with self._slot(), self._chart_directory(files) as directory:
            first = await self._output(command, directory)
            return first, await self._output(command, directory)

    async def _output(self, command: Sequence[str], directory: Path) -> bytes:
        ended = await child.run(
            command, directory=directory, limits=self._limits, environment=_environment(directory)
        )
        if ended.returncode == 0:
            return ended.stdout
        said = helm_command.stderr_tail(ended.stderr)
        # Cleaned before it is cut to what is shown: half a secret would not be recognised.
        said = redaction.process.clean(said, limit=len(said) * 2 + 1)
        words = helm_command.error_message(said, directory=str(directory))
        raise RenderRefused("RenderFailed", f"helm: {words or f'exit status {ended.returncode}'}")

    def _program_path(self) -> str:
        found = shutil.which(self._program) if self._program else None
        if found is None:
            missing = f"there is no program {self._program}" if self._program else "it is empty"
            raise Stalled(
                "SandboxUnavailable",
                "charts are rendered by the program that the operator's setting environments-helm "
                f"names, and {missing}; install helm and name it there, or use type manifest",
            )
        return str(Path(found).absolute())

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError as error:
            text = "other charts are rendered first"
            raise Waiting("RenderUnavailable", text, after=_REQUEUE_SECONDS) from error
        try:
            yield
        finally:
            self._slots.release()

    @contextlib.asynccontextmanager
    async def _chart_directory(self, files: Mapping[str, bytes]) -> AsyncIterator[Path]:
        """A directory of mode 0700 with these files, and nothing of it afterwards."""
        stack = contextlib.ExitStack()
        try:
            yield await tasks.run_in_thread(_write_files, stack, self._directory, files)
        finally:
            await tasks.run_in_thread(stack.close)


def _environment(directory: Path) -> dict[str, str]:
    """Where helm would look for plugins, repositories and registries: nowhere."""
    home = directory / child.HOME
    return {
        "HELM_NO_PLUGINS": "1",
        "HELM_PLUGINS": str(home / "plugins"),
        "HELM_REPOSITORY_CACHE": str(home / "repository"),
        "HELM_REPOSITORY_CONFIG": str(home / "repositories.yaml"),
        "HELM_REGISTRY_CONFIG": str(home / "registry.json"),
        "KUBECONFIG": os.devnull,
    }


def _write_files(stack: contextlib.ExitStack, base: Path, files: Mapping[str, bytes]) -> Path:
    try:
        made = stack.enter_context(PrivateDirectory(base))
        made.make_empty(child.HOME)
        below = SafeDirectory(made.path)
        for path, content in files.items():
            if "\\" in path:
                raise ValueError(path)
            below.write(path, content, mode=0o600)
    except ValueError as error:
        raise _unsafe_path() from error
    except OSError as error:
        if error.errno in _PATH_ERRORS:
            raise _unsafe_path() from error
        raise Retryable(
            "SandboxUnavailable", f"the chart cannot be written to disk: {error.strerror}"
        ) from error
    return made.path


def _unsafe_path() -> RenderRefused:
    return RenderRefused(
        "RenderFailed", "a file of the chart has a path that cannot be made below the chart"
    )
