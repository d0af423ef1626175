"""Binds the socket a server listens on, and says in plain words why it could not."""

from __future__ import annotations

import errno
import socket

from windlass.base.errors import Fatal


def bind(host: str, port: int, *, flag: str = "") -> socket.socket:
    """A bound socket; the empty host means every address, port 0 a free port.

    `flag` names the option with which a person chooses another address.
    """
    try:
        return _bound(host, port)
    except OSError as error:
        raise Fatal("ListenFailed", _explain(error, host, port) + _advice(flag)) from error


def _bound(host: str, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _explain(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken by another process"
    if error.errno == errno.EACCES:
        return f"port {port} may only be opened by a privileged process"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{host!r} is not an address of this machine"
    return f"cannot listen on {host or '*'}:{port}: {error.strerror}"


def _advice(flag: str) -> str:
    return f"; choose another with {flag}" if flag else ""
