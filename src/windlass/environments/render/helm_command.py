"""Arguments, values and release name that helm is called with, and its errors for people.

Values win in this order, later over earlier:

    the chart's own ─▶ valuesFiles ─▶ the template's values ─▶ the Environment's values

helm itself merges them, so they mean here what they mean everywhere.

The inputs of a rendering are the files, the values and the names. Neither the commit nor
the version of the cluster belongs to them: a commit that changes nothing of the chart
restarts nothing, and neither does an upgrade of the cluster, which would otherwise give
every chart with random values new ones at once.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project_sources import Template
from windlass.api.schema.scalars import FreeObject
from windlass.environments.namespace import naming
from windlass.environments.namespace.naming import EnvironmentIdentity
from windlass.environments.spec import SpecRefused

_MOST_LINES = 8
_MOST_CHARS = 1500
_TAIL_BYTES = 16 << 10
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


def template_arguments(release: Release, *, chart: str, values: Sequence[str]) -> list[str]:
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


def stderr_tail(stderr: bytes) -> str:
    """The end of what helm said, ten times what is shown of it: all of it takes long to clean."""
    return stderr[-_TAIL_BYTES:].decode("utf-8", "replace")


def error_message(stderr: str, *, directory: str) -> str:
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


MOST_TEMPLATE_BYTES = 256 << 10
MOST_ENVIRONMENT_BYTES = 64 << 10
MOST_NAME_CHARS = 53


def encode_values(template: Template, environment: Environment) -> tuple[bytes, ...]:
    """The values that the two objects give, in order; WishRefused if there are too many."""
    own = environment.spec.values
    if own is not None and template.type != "helm":
        raise _invalid_values(
            f"spec.values are for a template of type helm, this one is of type {template.type}; "
            "leave them out"
        )
    where = "values of the template", "spec.values"
    bounds = MOST_TEMPLATE_BYTES, MOST_ENVIRONMENT_BYTES
    return tuple(_encode_each((template.values, own), where, bounds))


def release_name(identity: EnvironmentIdentity) -> str:
    """The name of the release: the id, or as much of it as helm takes with a hash behind it."""
    readable = naming.sanitize(identity.id)
    if readable == identity.id and len(readable) <= MOST_NAME_CHARS:
        return readable
    room = MOST_NAME_CHARS - len(identity.hash) - 1
    cut = readable[:room].rstrip("-")
    return f"{cut}-{identity.hash}" if cut else identity.hash


def inputs_digest(
    tree: str, path: str, files: Sequence[str], values: Sequence[bytes], release: Sequence[str]
) -> str:
    """What changes with anything that a rendering is made from, and with nothing else."""
    rows = (tree, path, tuple(files), tuple(values), tuple(release))
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _encode_each(
    given: Sequence[FreeObject | None], where: Sequence[str], bounds: Sequence[int]
) -> Iterator[bytes]:
    for values, name, most in zip(given, where, bounds, strict=True):
        if values is None:
            continue
        # JSON is YAML, and a sorted one is the same for the same values.
        text = msgspec.json.encode(values, order="sorted")
        if len(text) > most:
            raise _invalid_values(
                f"{name}: they have {len(text)} bytes, at most {most >> 10} KiB are taken; "
                "put them into a file of the repository and name it in valuesFiles"
            )
        yield text


def _invalid_values(message: str) -> SpecRefused:
    return SpecRefused("DeploymentReady", "ConfigInvalid", message)
