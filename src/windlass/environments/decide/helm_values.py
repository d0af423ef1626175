"""What a chart is rendered with besides its files.

Values win in this order, later over earlier:

    the chart's own ─▶ valuesFiles ─▶ the template's values ─▶ the Environment's values

helm itself puts them together, so they mean here what they mean everywhere.

The inputs of a rendering are the files, the values and the names. Neither the commit nor
the version of the cluster belongs to them: a commit that changes nothing of the chart
restarts nothing, and neither does an upgrade of the cluster, which would otherwise give
every chart with random values new ones at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project_sources import Template
from windlass.api.schema.scalars import FreeObject
from windlass.environments.decide import names
from windlass.environments.decide.names import Identity
from windlass.environments.decide.wish import WishRefused

MOST_TEMPLATE_BYTES = 256 << 10
MOST_ENVIRONMENT_BYTES = 64 << 10
MOST_NAME_CHARS = 53


def of(template: Template, environment: Environment) -> tuple[bytes, ...]:
    """The values that the two objects give, in order; WishRefused if there are too many."""
    own = environment.spec.values
    if own is not None and template.type != "helm":
        raise _refused(
            f"spec.values are for a template of type helm, this one is of type {template.type}; "
            "leave them out"
        )
    where = "values of the template", "spec.values"
    bounds = MOST_TEMPLATE_BYTES, MOST_ENVIRONMENT_BYTES
    return tuple(_encoded((template.values, own), where, bounds))


def release_name(identity: Identity) -> str:
    """The name of the release: the id, or as much of it as helm takes with a hash behind it."""
    readable = names.sanitised(identity.id)
    if readable == identity.id and len(readable) <= MOST_NAME_CHARS:
        return readable
    room = MOST_NAME_CHARS - len(identity.hash) - 1
    cut = readable[:room].rstrip("-")
    return f"{cut}-{identity.hash}" if cut else identity.hash


def inputs(
    tree: str, path: str, files: Sequence[str], values: Sequence[bytes], release: Sequence[str]
) -> str:
    """What changes with anything that a rendering is made from, and with nothing else."""
    rows = (tree, path, tuple(files), tuple(values), tuple(release))
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _encoded(
    given: Sequence[FreeObject | None], where: Sequence[str], bounds: Sequence[int]
) -> Iterator[bytes]:
    for values, name, most in zip(given, where, bounds, strict=True):
        if values is None:
            continue
        # JSON is YAML, and a sorted one is the same for the same values.
        text = msgspec.json.encode(values, order="sorted")
        if len(text) > most:
            raise _refused(
                f"{name}: they have {len(text)} bytes, at most {most >> 10} KiB are taken; "
                "put them into a file of the repository and name it in valuesFiles"
            )
        yield text


def _refused(message: str) -> WishRefused:
    return WishRefused("DeploymentReady", "ConfigInvalid", message)
