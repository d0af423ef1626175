"""Values that JSON can hold, which is all that the API server sends."""

from __future__ import annotations

from typing import Any, TypeAlias

JSON: TypeAlias = Any
Object: TypeAlias = dict[str, Any]
