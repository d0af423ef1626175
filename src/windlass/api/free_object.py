"""An object whose keys are nobody's business but its reader's.

The API server keeps what stands in it as it is: nothing is pruned, no default is put in.
"""

from __future__ import annotations

from typing import Any

FreeObject = dict[str, Any]
"""Any keys, any values below them."""
