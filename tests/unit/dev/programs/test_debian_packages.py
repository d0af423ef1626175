"""Arguments of apt, and how programs are run from the cache."""

from __future__ import annotations

from pathlib import Path

from windlass_dev.programs import debian_packages

SIMULATION = """Reading package lists...
Inst libnftnl11 (1.2.4-2 Debian:12 [amd64])
Inst iptables (1.8.9-2 Debian:12 [amd64])
Conf libnftnl11 (1.2.4-2 Debian:12 [amd64])
"""


def test_dependencies_of_a_package_are_fetched_with_it() -> None:
    """Only those that are not installed; and the package itself even if it is."""
    assert debian_packages.packages_to_fetch(SIMULATION, ["iptables"]) == ["iptables", "libnftnl11"]
    assert debian_packages.packages_to_fetch(
        "iptables is already the newest version", ["iptables"]
    ) == ["iptables"]


def test_wrapper_finds_libraries_and_passes_arguments_on() -> None:
    """The program replaces the shell, so its pid is the one that was started."""
    text = debian_packages.wrapper_script(Path("/c/x-multi"), [Path("/c/lib")], ["iptables"])
    assert text.startswith("#!/bin/sh\n")
    assert 'LD_LIBRARY_PATH="/c/lib" XTABLES_LIBDIR="/c/lib/xtables"' in text
    assert text.endswith('exec "/c/x-multi" iptables "$@"\n')
