"""Tests of the shell lines that `windlass dev env` prints."""

from __future__ import annotations

from windlass_dev.cli import dev


def test_a_node_is_reached_without_the_proxy() -> None:
    """Only where there is a proxy, and existing exceptions stay."""
    server = "https://10.212.0.2:6443"
    assert dev._no_proxy_lines(server, {"PATH": "/bin"}) == []
    assert dev._no_proxy_lines(server, {"HTTPS_PROXY": "http://p"}) == [
        'export NO_PROXY="10.212.0.2${NO_PROXY:+,$NO_PROXY}"',
        'export no_proxy="10.212.0.2${no_proxy:+,$no_proxy}"',
    ]


def test_loopback_needs_no_proxy_exception() -> None:
    """Every client skips the proxy for loopback."""
    assert dev._no_proxy_lines("https://127.0.0.1:5", {"https_proxy": "http://p"}) == []
