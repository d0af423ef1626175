"""What a process of windlass imports and derives, for a process that others are forked from.

That includes what libraries import with a first request only, and the descriptions of our
kinds, from which every installation derives its CRDs.
"""

from __future__ import annotations

import gc

from windlass.telemetry import log_setup

log_setup.load_structlog()


from windlass.api.install import crd  # noqa: E402
from windlass.api.kinds.registry import KINDS  # noqa: E402

for _kind in KINDS:
    crd.crd_manifest(_kind)

# A child that collects garbage need not look at all of this, nor copy its pages.
gc.collect()
gc.freeze()
