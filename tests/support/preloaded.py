"""What a process of windlass imports and derives, for a process that others are forked from.

That includes what libraries import with a first request only, and the descriptions of our
kinds, from which every installation derives its CRDs.
"""

from __future__ import annotations

import encodings.idna
import gc

from windlass.telemetry import log_setup

log_setup.load_structlog()

import anyio._backends._asyncio  # noqa: E402
import cryptography.hazmat.backends.openssl  # noqa: E402
import httpcore2  # noqa: E402
import uvicorn.lifespan.off  # noqa: E402

import windlass.app.controller  # noqa: E402
import windlass.app.settings_sources  # noqa: E402
import windlass.cli.main  # noqa: E402
import windlass.gateways.agent.process  # noqa: E402
import windlass.telemetry.logs  # noqa: E402
import windlass_dev.cli.entry_point  # noqa: E402
import windlass_dev.cli.local_run  # noqa: E402
from windlass.api.install import crd  # noqa: E402
from windlass.api.kinds.registry import KINDS  # noqa: E402

__all__ = ["anyio", "cryptography", "encodings", "httpcore2", "uvicorn", "windlass", "windlass_dev"]

for _kind in KINDS:
    crd.crd_manifest(_kind)

# A child that collects garbage need not look at all of this, nor copy its pages.
gc.collect()
gc.freeze()
