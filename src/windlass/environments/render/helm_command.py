"""Arguments, values and release name that helm is called with, and its errors as messages.

Values win in this order, later over earlier:

    the chart's own ─▶ valuesFiles ─▶ the template's values ─▶ the Environment's values

helm itself merges them, so they mean here what they mean everywhere.

The inputs of a render are the files, the values and the names. Neither the commit nor the
version of the cluster belongs to them: a commit that changes nothing of the chart restarts
nothing, and neither does an upgrade of the cluster, which would otherwise give every chart with
random values new ones at once.

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
_VENDOR = "commit the dependencies to the charts/ directory of the chart; nothing is downloaded"


@dataclass(frozen=True, slots=True)
class Release:
    """The release and the cluster that a chart is rendered for, as its templates see them."""

    name: str
    namespace: str
    kube_version: str  # such as v1.35.4; empty for helm's own default
    api_versions: tuple[str, ...]  # `group/version` and `group/version/Kind`


def template_arguments(release: Release, *, chart: str, values: Sequence[str]) -> list[str]:
    """The arguments of helm; `values` are files of which later ones win.

    Hooks are in the output, CRDs are not. Test hooks are removed later (`bundle.hooks`): helm
    would also leave out an object that is a test and another hook as well. No flag here lets
    helm connect to a cluster, a resolver or a repository.
    """
    options = {"--namespace": release.namespace, "--kube-version": release.kube_version}
    flags = [f"{name}={value}" for name, value in options.items() if value]
    flags += [f"--api-versions={version}" for version in release.api_versions]
    flags += [f"--values={file}" for file in values]
    return ["template", *flags, "--", release.name, chart]


def stderr_tail(stderr: bytes) -> str:
    """The end of helm's stderr, ten times what is shown: redacting all of it takes long."""
    return stderr[-_TAIL_BYTES:].decode("utf-8", "replace")


def error_message(stderr: str, *, directory: str) -> str:
    """The last lines of helm's stderr, without the paths of the sandbox and without warnings."""
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
"""Longest release name that helm accepts."""


def encode_values(template: Template, environment: Environment) -> tuple[bytes, ...]:
    """The values of the Project's template and of the Environment, as JSON, in that order.

    SpecRefused where they are too large, or where the template is not of type helm.
    """
    own = environment.spec.values
    if own is not None and template.type != "helm":
        raise _invalid_values(
            "spec.values is only allowed with a template of type helm, this one is of type "
            f"{template.type}; remove it"
        )
    where = "values of the template", "spec.values"
    bounds = MOST_TEMPLATE_BYTES, MOST_ENVIRONMENT_BYTES
    return tuple(_encode_each((template.values, own), where, bounds))


def release_name(identity: EnvironmentIdentity) -> str:
    """The name of the release: the id, or as much of it as helm accepts, with a hash behind it."""
    readable = naming.sanitize(identity.id)
    if readable == identity.id and len(readable) <= MOST_NAME_CHARS:
        return readable
    room = MOST_NAME_CHARS - len(identity.hash) - 1
    cut = readable[:room].rstrip("-")
    return f"{cut}-{identity.hash}" if cut else identity.hash


def inputs_digest(
    tree: str, path: str, files: Sequence[str], values: Sequence[bytes], release: Sequence[str]
) -> str:
    """Digest of the inputs of a render; any change of them changes it, nothing else does."""
    rows = (tree, path, tuple(files), tuple(values), tuple(release))
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _encode_each(
    values_of_objects: Sequence[FreeObject | None], where: Sequence[str], bounds: Sequence[int]
) -> Iterator[bytes]:
    for values, name, limit in zip(values_of_objects, where, bounds, strict=True):
        if values is None:
            continue
        # JSON is YAML; sorted, equal values give equal bytes.
        text = msgspec.json.encode(values, order="sorted")
        if len(text) > limit:
            raise _invalid_values(
                f"{name}: too large ({len(text)} bytes, limit {limit >> 10} KiB); move the values "
                "into a file in the repository and list it in valuesFiles"
            )
        yield text


def _invalid_values(message: str) -> SpecRefused:
    return SpecRefused("DeploymentReady", "ConfigInvalid", message)
