"""Entry point of the admission webhook process, started without heavy log formatting libraries."""

from __future__ import annotations

from windlass.telemetry import log_setup


def main() -> None:
    """Run as `python -m windlass.reverser.attribution`, with inherited descriptors."""
    log_setup.load_structlog()
    from windlass.reverser.attribution import webhook_server

    webhook_server.main()


if __name__ == "__main__":
    main()
