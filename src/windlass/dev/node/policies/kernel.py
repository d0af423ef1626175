"""Puts chains into the packet filter of the network that this process is in."""

from __future__ import annotations

from windlass.base import failpoint
from windlass.dev.node import system
from windlass.dev.node.policies import chains
from windlass.dev.node.policies.chains import Chains


def apply(wanted: Chains) -> None:
    """Have `wanted` in force, all of it at once; a crash leaves the old chains or the new."""
    found = chains.found_in(system.run("iptables-save", "-t", chains.TABLE))
    failpoint.reach("dev.node.policies.before")
    # kube-proxy writes too, and the older kind of iptables lets one in at a time.
    system.run("iptables-restore", "--noflush", "--wait=5", text=chains.restored(wanted, found))
    failpoint.reach("dev.node.policies.after")
