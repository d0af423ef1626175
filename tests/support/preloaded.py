"""What a process of windlass imports, for a process that others are forked from."""

from __future__ import annotations

from windlass.telemetry import lean

lean.load()

import windlass.app.controller  # noqa: E402
import windlass.cli.main  # noqa: E402
import windlass.dev.cluster  # noqa: E402
import windlass.dev.install  # noqa: E402
import windlass.gateways.agent.process  # noqa: E402

__all__ = ["windlass"]
