"""Starts the witness, without what its log library would draw with."""

from __future__ import annotations

from windlass.telemetry import lean


def main() -> None:
    """Run as `python -m windlass.reverser.witness`, with inherited descriptors."""
    lean.load()
    from windlass.reverser.witness import process

    process.main()


if __name__ == "__main__":
    main()
