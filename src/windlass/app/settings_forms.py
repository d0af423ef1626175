"""Forms of setting values: parsers with their inverse.

A form parses text, whichever source it comes from, and writes a value back so that parsing it
again gives the same value. `expected` ends the sentence "expected ...". `Pairs` are names with
their values as one setting: `cpu=1,memory=2Gi`, no name twice. The names of a quota repeat those
of the API: every command reads settings, and few of them need the API for anything else.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from windlass.base import clock

T = TypeVar("T")
L = TypeVar("L", bound=str)


class Form(Protocol[T]):
    """Text to value and back; `read` raises ValueError for anything else."""

    @property
    def expected(self) -> str: ...

    def read(self, text: str) -> T: ...

    def write(self, value: T) -> str: ...


class ListenAddress(NamedTuple):
    """Where a server listens; the empty host is every address, port 0 a free port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Bool:
    """true or false."""

    expected: str = "true or false"

    def read(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in {"true", "false"}:
            raise ValueError(text)
        return lowered == "true"

    def write(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Int:
    """A whole number within bounds."""

    least: int
    most: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def read(self, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise ValueError(text)
        value = int(text)
        if not self.least <= value <= self.most:
            raise ValueError(text)
        return value

    def write(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in seconds; where `or_off`, 0 disables the feature."""

    least: float = 1.0
    or_off: bool = False

    @property
    def expected(self) -> str:
        off = ", or 0 for off" if self.or_off else ""
        return f"a duration like 90s, 5m or 1h30m, at least {self.least:g}s{off}"

    def read(self, text: str) -> float:
        seconds = 0.0 if text == "0" else clock.parse_duration(text)
        if seconds < self.least and not (self.or_off and seconds == 0):
            raise ValueError(text)
        return seconds

    def write(self, value: float) -> str:
        millis = round(value * 1000)
        for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
            if millis and millis % size == 0:
                return f"{millis // size}{unit}"
        return f"{millis}ms" if millis else "0"


@dataclass(frozen=True)
class OneOf(Generic[L]):
    """One of a few words."""

    words: tuple[L, ...]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, text: str) -> L:
        return self.words[self.words.index(text)]

    def write(self, value: L) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a given shape."""

    pattern: str
    expected: str

    def read(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        return text

    def write(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Cidr:
    """A block of addresses."""

    expected: str = "a block of addresses, like 10.0.0.0/8"

    def read(self, text: str) -> str:
        if "/" not in text:
            raise ValueError(text)
        ipaddress.ip_network(text)
        return text

    def write(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Ip:
    """One IP address."""

    expected: str = "an IP address, like 10.0.0.1"

    def read(self, text: str) -> str:
        return str(ipaddress.ip_address(text))

    def write(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Directory:
    """The absolute path of a directory."""

    expected: str = "an absolute path"

    def read(self, text: str) -> Path:
        path = Path(text)
        if not path.is_absolute() or "\0" in text:
            raise ValueError(text)
        return path

    def write(self, value: Path) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Listen:
    """host:port, with brackets around an IPv6 address."""

    expected: str = "host:port or :port, like 127.0.0.1:8080, [::1]:8080 or :8080"

    def read(self, text: str) -> ListenAddress:
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z.-]*)):([0-9]{1,5})", text)
        if match is None or int(match[3]) > 65535:
            raise ValueError(text)
        return ListenAddress(match[1] or match[2], int(match[3]))

    def write(self, value: ListenAddress) -> str:
        host = f"[{value.host}]" if ":" in value.host else value.host
        return f"{host}:{value.port}"


@dataclass(frozen=True, slots=True)
class Several(Generic[T]):
    """Any number of values; read from one text they are separated by commas."""

    item: Form[T]

    @property
    def expected(self) -> str:
        return f"a list, each {self.item.expected}"

    def read(self, text: str) -> tuple[T, ...]:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        return tuple(self.item.read(part) for part in parts)

    def write(self, value: tuple[T, ...]) -> str:
        return ",".join(self.item.write(part) for part in value)


@dataclass(frozen=True, slots=True)
class Commas(Generic[T]):
    """Several values in one text, for lists whose default is not empty.

    With `needs_one` an empty list is refused.
    """

    item: Form[T]
    needs_one: bool = False

    @property
    def expected(self) -> str:
        bound = "at least one" if self.needs_one else "empty for none"
        return f"a comma-separated list, {bound}, each {self.item.expected}"

    def read(self, text: str) -> tuple[T, ...]:
        values = Several(self.item).read(text)
        if self.needs_one and not values:
            raise ValueError(text)
        return values

    def write(self, value: tuple[T, ...]) -> str:
        return Several(self.item).write(value)


_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"

LABEL = Text(_LABEL, "a name of lowercase letters, digits and dashes")
OPTIONAL_OBJECT_NAME = Text(rf"({_LABEL}(\.{_LABEL})*)?", "the name of an object, or nothing")
OBJECT_NAME = Text(rf"{_LABEL}(\.{_LABEL})*", "the name of an object")
KEY_PREFIX = Text(r"[0-9A-Za-z][0-9A-Za-z_./-]{0,315}", "the beginning of a key, like example.com/")
RESOURCE = Text(
    rf"({_LABEL}(\.{_LABEL})*/)?[a-z][a-z0-9]*",
    "a plural resource, with its group before a slash, like events or apps/deployments",
)
ANNOTATION_PREFIX = Text(
    rf"(\*\.)?{_LABEL}(\.{_LABEL})+/[A-Za-z0-9_.-]*",
    "the beginning of an annotation key with its domain, like example.org/ or *.example.org/",
)
HOST = Text(
    r"([0-9A-Za-z.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", "a host, where needed with its port"
)
CIDR = Cidr()
IP = Ip()
UID = Text(r"[0-9A-Za-z-]{0,64}", "a uid of letters, digits and dashes, or nothing")
CLUSTER_NAME = Text(r"[0-9A-Za-z-]{0,64}", "a name of letters, digits and dashes, or nothing")
RELATIVE_PATH = Text(
    r"(?!\.{1,2}(/|$))[A-Za-z0-9_.-]+(/(?!\.{1,2}(/|$))[A-Za-z0-9_.-]+)*",
    "a relative path like config/resources/plant",
)
PROGRAM = Text(
    r"(/[^\x00]+|[A-Za-z0-9][A-Za-z0-9_.-]*)?",
    "the absolute path of a program, its name on PATH, or nothing",
)


Pair = tuple[str, str]

_WORD = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_AMOUNT = "[1-9][0-9]{0,17}([KMGTPE]i|[mkMGTPE])?"
_NUMBER = "[1-9][0-9]{0,4}"

QUOTA_AMOUNTS = ("cpu", "memory", "limitsCpu", "limitsMemory", "storage", "ephemeralStorage")
"""Names of a quota whose values are amounts."""

QUOTA_COUNTS = ("pods", "persistentVolumeClaims", "services", "jobs", "secrets", "configMaps")
"""Names of a quota whose values are numbers."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Any number of `name=value` with commas between them, each of a given shape."""

    pattern: str
    what: str

    @property
    def expected(self) -> str:
        return f"a comma-separated list, empty for none, each {self.what}, none of them twice"

    def read(self, text: str) -> tuple[Pair, ...]:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        pairs = tuple(self._pair(part) for part in parts)
        if len(dict(pairs)) != len(pairs):
            raise ValueError(text)
        return pairs

    def write(self, value: tuple[Pair, ...]) -> str:
        return ",".join(f"{name}={text}" for name, text in value)

    def _pair(self, text: str) -> Pair:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        name, _, value = text.partition("=")
        return name, value


QUOTA_PAIRS = Pairs(
    rf"({'|'.join(QUOTA_AMOUNTS)})={_AMOUNT}|({'|'.join(QUOTA_COUNTS)})={_NUMBER}",
    "an amount of a quota like cpu=1, memory=2Gi or pods=10",
)
LABEL_PAIRS = Pairs(rf"({_DOMAIN}/)?{_WORD}=({_WORD})?", "a label like pool=previews")
