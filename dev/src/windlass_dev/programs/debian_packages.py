"""Programs out of Debian packages that are unpacked into our cache, never installed.

apt resolves and downloads, with whatever mirrors and proxies it was given; packages
that the machine has installed are not fetched again. Lists that are out of date are
refreshed into a directory of our own, so the machine's stay as they are. A set is
unpacked beside its final name and renamed: under its final name it is whole.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor
from windlass_dev import directories, file_lock
from windlass_dev.progress import ProgressReporter

_TO_INSTALL = re.compile(r"^Inst (\S+)", re.MULTILINE)
_PROGRAM_DIRECTORIES = ("usr/bin", "usr/sbin", "bin", "sbin")
_SECONDS = 600.0
_PREFIX = ".unpack-"


def find_unpacked(name: str) -> Path | None:
    """The set `name` if it was unpacked before."""
    directory = _cache_directory() / name
    return directory if directory.is_dir() else None


def provide_packages(name: str, packages: Sequence[str], progress: ProgressReporter) -> Path:
    """A directory with the files of `packages`, and their programs in its `run`."""
    directories.ensure_private(_cache_directory())

    def report_holder(holder: str) -> None:
        progress.report(f"waiting: {holder} is unpacking Debian packages into {_cache_directory()}")

    with file_lock.hold(_cache_directory() / "unpack.lock", on_wait=report_holder):
        directory = _cache_directory() / name
        if not directory.is_dir():
            with progress.step(f"unpacking Debian packages: {', '.join(packages)}"):
                _unpack(directory, packages)
    return directory


def wrapper_script(program: Path, libraries: Sequence[Path], arguments: Sequence[str] = ()) -> str:
    """A script that runs `program` with libraries that the system does not know."""
    search = ":".join(map(str, libraries))
    modules = ":".join(str(library / "xtables") for library in libraries)
    call = " ".join([f'"{program}"', *arguments, '"$@"'])
    return f'#!/bin/sh\nLD_LIBRARY_PATH="{search}" XTABLES_LIBDIR="{modules}" exec {call}\n'


def packages_to_fetch(simulation: str, packages: Sequence[str]) -> list[str]:
    """What apt would install: `packages` and what they need that is not there yet."""
    return sorted({*packages, *_TO_INSTALL.findall(simulation)})


def _cache_directory() -> Path:
    return directories.cache_root() / "debian"


def _unpack(directory: Path, packages: Sequence[str]) -> None:
    for stale in directory.parent.glob(f"{_PREFIX}*"):
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=directory.parent) as temporary:
        draft, downloads = Path(temporary) / "draft", Path(temporary) / "downloads"
        draft.mkdir()
        downloads.mkdir()
        _download(packages, downloads)
        for package in sorted(downloads.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(draft)], cwd=downloads)
        _link_programs(draft, directory)
        _sync(draft)
        failpoint.reach("dev.packages.rename.before")
        draft.rename(directory)


def _download(packages: Sequence[str], target: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise _packages_missing_error(packages, "this is no Debian, so there is no apt-get to ask")
    try:
        _fetch(packages, target, ())
    except _AptFailed:
        lists = target / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        own = (f"Dir::State::lists={lists}", f"Dir::Cache={target}/cache")
        # One unreachable source of many is no failure yet: the packages decide.
        _apt(["update"], own, cwd=target, check=False)
        try:
            _fetch(packages, target, own)
        except _AptFailed as fault:
            raise _packages_missing_error(packages, f"apt-get said: {fault}") from fault


def _fetch(packages: Sequence[str], target: Path, options: Iterable[str]) -> None:
    plan = _apt(["--simulate", "--no-install-recommends", "install", *packages], options, target)
    _apt(["download", *packages_to_fetch(plan, packages)], options, cwd=target)


class _AptFailed(Exception):
    pass


def _apt(arguments: list[str], options: Iterable[str], cwd: Path, *, check: bool = True) -> str:
    # The cache is for its owner alone, so apt's own user could not write there.
    settings = [f"-o={option}" for option in (*options, "APT::Sandbox::User=root")]
    return _run(["apt-get", "--quiet", *settings, *arguments], cwd=cwd, check=check)


def _run(command: list[str], *, cwd: Path, check: bool = True) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise _AptFailed(f"no answer in {_SECONDS:.0f} s") from slow
    if check and done.returncode != 0:
        raise _AptFailed(redactor.clean(done.stderr.strip()[-600:]))
    return done.stdout


def _packages_missing_error(packages: Sequence[str], why: str) -> WindlassError:
    return WindlassError(
        "PackagesMissing",
        f"a node needs {', '.join(packages)}: install it, or let it be downloaded; {why}",
    )


def _link_programs(draft: Path, final: Path) -> None:
    """`run` holds every program under its name, ready to be run from where it will be."""
    (draft / "run").mkdir()
    libraries = sorted({path.parent for path in draft.glob("usr/lib/*/*.so*")})
    placed = [final / library.relative_to(draft) for library in libraries]
    found = [path for where in _PROGRAM_DIRECTORIES for path in sorted(draft.glob(f"{where}/*"))]
    # Some packages have a program in two places; either will do.
    for program in {path.name: path for path in found}.values():
        _link_program(draft / "run" / program.name, final / program.relative_to(draft), placed)
    # Names that an installation would have chosen among alternatives.
    for variant in draft.glob("usr/sbin/*tables-nft*"):
        name = variant.name.replace("-nft", "")
        multi = final / "usr/sbin/xtables-nft-multi"
        if name.startswith("ip"):
            _link_program(draft / "run" / name, multi, placed, [name])


def _link_program(
    place: Path, program: Path, libraries: Sequence[Path], words: Sequence[str] = ()
) -> None:
    if not libraries and not words:
        place.symlink_to(program)
        return
    place.write_text(wrapper_script(program, libraries, words))
    place.chmod(0o755)


def _sync(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
