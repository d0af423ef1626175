"""Renders a chart with `helm template`, in a confined child and a directory for it alone.

The child has no network, no cluster, no plugins, no repositories: `lookup` and
`getHostByName` find nothing, dependencies are those in `charts/`. Hooks are part of the
output, with their annotations; the directory `crds/` is not. A chart is rendered twice:
where the two outputs differ, its own functions generated something.
The directory is gone afterwards; one that a killed operator left is removed at the start.

A few renders run at a time, and namespaces share them fairly: slow charts of one delay no other. No
worker waits for a render (`runtime.pending_calls`). `renderer.ChartRenderer` is the caller.
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
from windlass.base.errors import Retryable, Stalled
from windlass.base.fair_slots import FairSlots, SlotRevoked
from windlass.base.safe_directory import SafeDirectory
from windlass.environments.render import helm_command
from windlass.environments.render.helm_command import Release
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.sandbox import child
from windlass.environments.render.sandbox.child import RenderLimits
from windlass.git import environment
from windlass.git.environment import PrivateDirectory

_CHART = "chart"
_PROGRAM = "helm"
_MAX_RENDERS = 4
_PATH_ERRORS = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP)


class Helm:
    """Runs one helm program, each render within `limits`.

    `program` is a path, or a name on PATH; empty where charts shall not be rendered.
    `directory` gets one directory per render; it belongs to this object alone.
    """

    def __init__(self, program: str, limits: RenderLimits, directory: Path) -> None:
        self._program = program
        self._limits = limits
        self._directory = environment.private_base(directory)
        environment.remove_leftovers(self._directory)
        # Renders that may run now: more would only wait for each other while their deadlines run.
        # Two at least: a single slot could not be taken from a slow chart for another namespace.
        most = max(2, min(_MAX_RENDERS, os.cpu_count() or 1))
        self._slots = FairSlots(most, most)

    async def template(
        self, chart: Mapping[str, bytes], values: Sequence[bytes], release: Release
    ) -> tuple[bytes, bytes]:
        """The objects of a chart, as YAML, rendered twice.

        `chart` maps paths relative to the chart's root to contents; `values` are YAML or JSON
        files, later ones win. Raises RenderRefused("RenderFailed" | "RenderTooLarge") for what
        the project did wrong, Stalled("SandboxUnavailable") where the child cannot be confined
        or helm is not installed, Retryable of the same reason where there is no room
        for files or a process.
        """
        program = await asyncio.to_thread(self._program_path)
        names = [f"values-{number}.yaml" for number in range(len(values))]
        files = {f"{_CHART}/{path}": content for path, content in chart.items()}
        files |= dict(zip(names, values, strict=True))
        command = [program, *helm_command.template_arguments(release, chart=_CHART, values=names)]
        while True:
            try:
                # One slot for both: waiting for a second one would throw the first output away.
                async with self._slots.hold(_PROGRAM), self._chart_directory(files) as directory:
                    first = await self._output(command, directory)
                    return first, await self._output(command, directory)
            except SlotRevoked:
                continue

    async def _output(self, command: Sequence[str], directory: Path) -> bytes:
        ended = await child.run(
            command, directory=directory, limits=self._limits, environment=_environment(directory)
        )
        if ended.returncode == 0:
            return ended.stdout
        stderr = helm_command.stderr_tail(ended.stderr)
        # Redacted before it is cut to what is shown: half a secret would not be recognized.
        stderr = redaction.process.clean(stderr, limit=len(stderr) * 2 + 1)
        message = helm_command.error_message(stderr, directory=str(directory))
        raise RenderRefused("RenderFailed", f"helm: {message or f'exit status {ended.returncode}'}")

    def _program_path(self) -> str:
        path = shutil.which(self._program) if self._program else None
        if path is None:
            raise Stalled(
                "SandboxUnavailable",
                f"helm not found: --environments-helm is {self._program or 'not set'}; install "
                "helm and set the path there, or use a template of type manifest",
            )
        return str(Path(path).absolute())

    @contextlib.asynccontextmanager
    async def _chart_directory(self, files: Mapping[str, bytes]) -> AsyncIterator[Path]:
        """A directory of mode 0700 with these files, removed at the end of the block."""
        stack = contextlib.ExitStack()
        try:
            yield await tasks.run_in_thread(_write_files, stack, self._directory, files)
        finally:
            await tasks.run_in_thread(stack.close)


def _environment(directory: Path) -> dict[str, str]:
    """Paths of plugins, repositories and registries for helm; none of them exists."""
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
        private = stack.enter_context(PrivateDirectory(base))
        private.make_empty(child.HOME)
        root = SafeDirectory(private.path)
        for path, content in files.items():
            # Legal in a Git tree, but a separator on other systems.
            if "\\" in path:
                raise ValueError(path)
            root.write(path, content, mode=0o600)
    except ValueError as error:
        raise _unsafe_path() from error
    except OSError as error:
        if error.errno in _PATH_ERRORS:
            raise _unsafe_path() from error
        raise Retryable(
            "SandboxUnavailable", f"cannot write the chart to disk: {error.strerror}"
        ) from error
    return private.path


def _unsafe_path() -> RenderRefused:
    return RenderRefused("RenderFailed", "a file of the chart has an invalid path")
