"""Which files of a chart define kinds: its `crds` directory and those of its dependencies.

helm installs them beside the templates and never prints them with these, so nobody would
learn that they are left out. Dependencies lie below `charts`, as directories or as archives;
an archive is read up to a bound, because it may claim to be of any size.
"""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping

_MOST_BYTES = 32 << 20
_NESTED = r"(charts/[^/]+/)*"
_DEFINING = re.compile(rf"{_NESTED}crds/.+\.(yaml|yml|json)")
_ARCHIVE = re.compile(rf"{_NESTED}charts/[^/]+\.(tgz|tar\.gz)")


def left_out(chart: Mapping[str, bytes]) -> tuple[str, ...]:
    """What is not made of a chart, by its files; their paths begin where Chart.yaml lies."""
    return tuple(f"{path} (CustomResourceDefinitions)" for path in sorted(_files(chart)))


def _files(chart: Mapping[str, bytes]) -> Iterator[str]:
    for path, content in chart.items():
        if _DEFINING.fullmatch(path):
            yield path
        elif _ARCHIVE.fullmatch(path):
            for name in _names(content):
                # The first directory in an archive is the chart's own.
                if _DEFINING.fullmatch(name.partition("/")[2]):
                    yield f"{path}/{name}"


def _names(archive: bytes) -> list[str]:
    """The files of an archive; none where helm will say what is wrong with it."""
    try:
        engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        unpacked = engine.decompress(archive, _MOST_BYTES)
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as files:
            return [member.name.removeprefix("./") for member in files if member.isfile()]
    except (zlib.error, tarfile.TarError):
        return []
