"""Programs from Debian packages that are unpacked into our cache, never installed.

apt resolves and downloads, with the machine's mirrors and proxies; packages that are
installed on the machine are not downloaded again. Package lists that are out of date are
refreshed into a directory of our own, so the machine's stay unchanged.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass_dev import directories
from windlass_dev.programs import program_cache
from windlass_dev.progress import ProgressReporter

_TO_INSTALL = re.compile(r"^Inst (\S+)", re.MULTILINE)
_PROGRAM_DIRECTORIES = ("usr/bin", "usr/sbin", "bin", "sbin")
_SECONDS = 600.0


def find_unpacked(name: str) -> Path | None:
    """The directory of the set `name`; None if it was not unpacked yet."""
    directory = _cache_directory() / name
    return directory if directory.is_dir() else None


def provide_packages(name: str, packages: Sequence[str], progress: ProgressReporter) -> Path:
    """Unpack `packages` as the set `name` unless it exists; their programs are in its `run`."""
    cache = _cache_directory()
    directory, activity = cache / name, f"unpacking Debian packages into {cache}"
    with program_cache.lock_cache(cache / "unpack.lock", activity, progress):
        if not directory.is_dir():
            with progress.step(f"unpacking Debian packages: {', '.join(packages)}"):
                _unpack(directory, packages)
    return directory


def wrapper_script(program: Path, libraries: Sequence[Path], arguments: Sequence[str] = ()) -> str:
    """A shell script that runs `program` with `libraries`, which are outside the system's path."""
    search = ":".join(map(str, libraries))
    modules = ":".join(str(library / "xtables") for library in libraries)
    call = " ".join([f'"{program}"', *arguments, '"$@"'])
    return f'#!/bin/sh\nLD_LIBRARY_PATH="{search}" XTABLES_LIBDIR="{modules}" exec {call}\n'


def packages_to_fetch(simulation: str, packages: Sequence[str]) -> list[str]:
    """`packages` and their dependencies that are not installed, from apt's simulation."""
    return sorted({*packages, *_TO_INSTALL.findall(simulation)})


def _cache_directory() -> Path:
    return directories.cache_root() / "debian"


def _unpack(directory: Path, packages: Sequence[str]) -> None:
    with program_cache.temporary_directory(directory.parent) as temporary:
        draft, downloads = temporary / "draft", temporary / "downloads"
        draft.mkdir()
        downloads.mkdir()
        _download(packages, downloads)
        for package in sorted(downloads.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(draft)], cwd=downloads)
        _link_programs(draft, directory)
        program_cache.sync(draft)
        failpoint.reach("dev.packages.rename.before")
        draft.rename(directory)


def _download(packages: Sequence[str], target: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise _packages_missing_error(packages, "apt-get not found; this is not a Debian system")
    try:
        _fetch(packages, target, ())
    except _AptFailed:
        # Most likely the package lists are missing or out of date: refresh our own copy.
        lists = target / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        options = (f"Dir::State::lists={lists}", f"Dir::Cache={target}/cache")
        # One unreachable source of many is not a failure yet: the download decides.
        _apt(["update"], options, cwd=target, check=False)
        try:
            _fetch(packages, target, options)
        except _AptFailed as fault:
            raise _packages_missing_error(packages, f"apt-get: {fault}") from fault


def _fetch(packages: Sequence[str], target: Path, options: Iterable[str]) -> None:
    plan = _apt(["--simulate", "--no-install-recommends", "install", *packages], options, target)
    _apt(["download", *packages_to_fetch(plan, packages)], options, cwd=target)


class _AptFailed(Exception):
    """apt or dpkg failed; the message is the end of its stderr."""


def _apt(arguments: list[str], options: Iterable[str], cwd: Path, *, check: bool = True) -> str:
    # Only its owner may enter the cache, so apt's sandbox user could not write there.
    settings = [f"-o={option}" for option in (*options, "APT::Sandbox::User=root")]
    return _run(["apt-get", "--quiet", *settings, *arguments], cwd=cwd, check=check)


def _run(command: list[str], *, cwd: Path, check: bool = True) -> str:
    environment = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = program_cache.run(command, seconds=_SECONDS, cwd=cwd, environment=environment)
    if check and done.returncode != 0:
        raise _AptFailed(redactor.clean(done.stderr.strip()[-600:]))
    return done.stdout


def _packages_missing_error(packages: Sequence[str], reason: str) -> WindlassError:
    return WindlassError(
        "PackagesMissing",
        f"could not download the Debian packages {', '.join(packages)}; install them: {reason}",
    )


def _link_programs(draft: Path, final: Path) -> None:
    """Fill `run` with links or wrapper scripts for every program at its path below `final`."""
    (draft / "run").mkdir()
    libraries = sorted({path.parent for path in draft.glob("usr/lib/*/*.so*")})
    final_libraries = [final / library.relative_to(draft) for library in libraries]
    programs = [
        path for directory in _PROGRAM_DIRECTORIES for path in sorted(draft.glob(f"{directory}/*"))
    ]
    # Some packages have a program in two directories; either will do.
    for program in {path.name: path for path in programs}.values():
        _link_program(
            draft / "run" / program.name, final / program.relative_to(draft), final_libraries
        )
    # Names that an installation would have created as alternatives.
    for variant in draft.glob("usr/sbin/*tables-nft*"):
        name = variant.name.replace("-nft", "")
        multi = final / "usr/sbin/xtables-nft-multi"
        if name.startswith("ip"):
            _link_program(draft / "run" / name, multi, final_libraries, [name])


def _link_program(
    link: Path, program: Path, libraries: Sequence[Path], arguments: Sequence[str] = ()
) -> None:
    # A symbolic link suffices for a program that needs neither libraries nor arguments.
    if not libraries and not arguments:
        link.symlink_to(program)
        return
    link.write_text(wrapper_script(program, libraries, arguments))
    link.chmod(0o755)
