"""Which containers cannot start: without an image, or with more than one container may have.

The API server says the same, but of the pods of a workload only later and elsewhere, and of
the LimitRange only in words. Objects have the shape that `object_shapes` asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.environments.decide import kinds
from windlass.environments.decide.field_rules import Offence, describe
from windlass.objects import quantity
from windlass.objects.names import Object

_NO_IMAGE = "image is required; name it with a tag or a digest"


def offences(obj: Object, most: Mapping[str, str]) -> Iterator[Offence]:
    """Every fault of the containers in one allowed object; `most` is what each may have."""
    spec, path = kinds.pod_spec(obj) or {}, f"{describe(obj)} {kinds.pod_path(obj)}"
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            where = f"{path}.{group}[{index}]"
            if not container.get("image"):
                yield Offence("ImageMissing", f"{where}.image", _NO_IMAGE)
            yield from _too_much(container.get("resources") or {}, where, most)


def _too_much(resources: Object, where: str, most: Mapping[str, str]) -> Iterator[Offence]:
    for part in ("requests", "limits"):
        for name, amount in (resources.get(part) or {}).items():
            # Amounts of other resources, such as devices, have no maximum here.
            if amount is None or name not in most:
                continue
            if quantity.parse(amount) > quantity.parse(most[name]):
                why = (
                    f"exceeds the maximum of {most[name]} per container; lower it, or raise "
                    "spec.resources.limitRange.max or the quota of the Project"
                )
                yield Offence("LimitAboveMaximum", f"{where}.resources.{part}.{name}", why)
