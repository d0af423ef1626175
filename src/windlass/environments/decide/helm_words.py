"""What helm is told, and what of its complaints a person is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_LINES = 8
_MOST_CHARS = 1500
_HEARD_BYTES = 16 << 10
# By how they begin: a chart may fail with any words of its own.
_NOISE = re.compile(r"WARNING:|(?:time=\S+ )?level=WARN|\w+\.go:\d+: |Use --debug flag")
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

    Hooks are in the output, CRDs are not. Tests are told apart later: helm would also leave
    out what is a test and another hook as well. Nothing here lets helm speak to a cluster, a
    resolver or a repository.
    """
    options = {"--namespace": release.namespace, "--kube-version": release.kube_version}
    said = [f"{name}={value}" for name, value in options.items() if value]
    said += [f"--api-versions={version}" for version in release.api_versions]
    said += [f"--values={file}" for file in values]
    return ["template", *said, "--", release.name, chart]


def last_words(stderr: bytes) -> str:
    """The end of what helm said, ten times what is shown of it: all of it takes long to clean."""
    return stderr[-_HEARD_BYTES:].decode("utf-8", "replace")


def complaint(stderr: str, *, directory: str) -> str:
    """The last lines that helm said, without our own paths and without what is no error."""
    shown = stderr.replace(f"{directory}/", "").replace(directory, "")
    lines = [_printable(line.rstrip()) for line in shown.splitlines() if not _is_noise(line)]
    text = "\n".join(lines[-_MOST_LINES:]).removeprefix("Error: ").strip()
    if len(text) > _MOST_CHARS:
        text = f"…{text[1 - _MOST_CHARS :]}"
    if _MISSING_DEPENDENCY in text:
        text = f"{text}; {_VENDOR}"
    return text


def _is_noise(line: str) -> bool:
    return not line.strip() or _NOISE.match(line) is not None


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in line.expandtabs(1))
