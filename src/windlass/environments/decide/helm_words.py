"""What helm is told, and what of its complaints a person is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_LINES = 8
_MOST_CHARS = 1500
_NOISE = ("WARNING:", "level=WARN", "walk.go:", "Use --debug flag", "coalesce.go:")
_MISSING_DEPENDENCY = "missing in charts/ directory"
_VENDOR = "commit the dependencies in the chart's directory charts/; nothing is downloaded"


@dataclass(frozen=True, slots=True)
class Release:
    """What a chart sees of the place it is rendered for."""

    name: str
    namespace: str
    kube_version: str
    api_versions: tuple[str, ...]


def arguments(release: Release, *, chart: str, values: Sequence[str]) -> list[str]:
    """The arguments of helm; `values` are files of which later ones win.

    Hooks are in the output, tests and CRDs are not. Nothing here lets helm speak to a
    cluster, a resolver or a repository.
    """
    options = {"--namespace": release.namespace, "--kube-version": release.kube_version}
    said = [f"{name}={value}" for name, value in options.items() if value]
    said += [f"--api-versions={version}" for version in release.api_versions]
    said += [f"--values={file}" for file in values]
    return ["template", "--skip-tests", *said, "--", release.name, chart]


def complaint(stderr: str, *, directory: str) -> str:
    """The last lines that helm said, without our own paths and without what is no error."""
    shown = stderr.replace(f"{directory}/", "").replace(directory, "")
    lines = [line.rstrip() for line in shown.splitlines() if not _is_noise(line)]
    text = "\n".join(lines[-_MOST_LINES:]).removeprefix("Error: ").strip()
    if len(text) > _MOST_CHARS:
        text = f"…{text[1 - _MOST_CHARS :]}"
    if _MISSING_DEPENDENCY in text:
        text = f"{text}; {_VENDOR}"
    return text


def _is_noise(line: str) -> bool:
    return not line.strip() or any(word in line for word in _NOISE)
