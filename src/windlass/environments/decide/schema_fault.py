"""What the API server says of an object that does not fit its schema.

Server-side apply answers such an object with 500, as if the server had failed, and with a
text that names the place and then quotes what stands there:

    failed to create typed patch object (ns/web; apps/v1, Kind=Deployment): .spec.replicas:
    expected numeric (int or float), got string
    failed to convert new object (ns/web; ...) to proper version: unable to convert ...

The first names fields, one to a line where they are many, the second none. Only the place
and the rule are taken over; what stands there may be a credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.objects.names import JSON, Object

_BEGINNINGS = ("failed to create typed patch object", "failed to convert new object")
_HEAD = re.compile(r"failed to create typed patch object \([^)]*\):(?: errors:)?")
_FAULT = re.compile(r"[ \t]*(?P<path>\.\S.*?): (?P<rule>.*)")
_NAMED_AT_MOST = 5
_RULES = (
    ("field not declared in schema", "there is no such field"),
    ("expected numeric", "it must be a number"),
    ("expected string", "it must be a text; put it in quotes"),
    ("expected boolean", "it must be true or false"),
    ("expected list", "it must be a list"),
    ("expected map", "it must be a map"),
    ("duplicate entries for key", "two entries of the list have the same key"),
)
_WRONG = "it has the wrong form"
_MOST_CHARS = 253


def found(message: str, obj: Object) -> str | None:
    """Field and rule, where `message` refuses `obj` for its schema; None where it does not."""
    if not message.startswith(_BEGINNINGS):
        return None
    named = list(_named(message))
    if named:
        return "; ".join(named[:_NAMED_AT_MOST])
    fractions = ", ".join(list(_fractions(obj, ""))[:3])
    if "cannot convert float64" in message and fractions:
        return f"{fractions}: it must be a whole number"
    if "quantities must match" in message:
        return "an amount in it is no quantity such as 500m, 2 or 1Gi"
    return "a value in it has a form that its field does not take"


def _named(message: str) -> Iterator[str]:
    """Each field that a message names, with its rule; there is one to a line."""
    head = _HEAD.match(message)
    for line in message[head.end() :].splitlines() if head is not None else ():
        fault = _FAULT.match(line)
        if fault is not None:
            rule = next((told for said, told in _RULES if fault["rule"].startswith(said)), _WRONG)
            yield f"{fault['path'].removeprefix('.')[:_MOST_CHARS]}: {rule}"


def _fractions(value: JSON, path: str) -> Iterator[str]:
    """Where numbers stand that are not whole."""
    if isinstance(value, float) and not value.is_integer():
        yield path[:_MOST_CHARS]
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from _fractions(below, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _fractions(below, f"{path}[{index}]")
