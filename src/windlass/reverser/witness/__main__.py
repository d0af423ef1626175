"""Starts the witness, without what its log library would draw with."""

from __future__ import annotations

from windlass.telemetry import log_setup


def main() -> None:
    """Run as `python -m windlass.reverser.witness`, with inherited descriptors."""
    log_setup.load_structlog()
    from windlass.reverser.witness import process

    process.main()


if __name__ == "__main__":
    main()
