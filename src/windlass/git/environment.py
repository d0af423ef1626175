"""Environment and configuration of a git child, made from scratch.

Nothing of the user's, the machine's or our own environment reaches git except the search path.
Values that are not secret go as command configuration, which overrules what a repository
configures. Secrets go elsewhere:

- user and password (also a token, also the proxy's) through the credential helper
  (credential_helper.sh), which reads an inherited descriptor and answers for one exact host; where
  a descriptor cannot be opened again, through a 0600 file in the private directory;
- a bearer header through a 0600 file in the private directory, scoped to the remote's own
  address: git 2.39 has no other way that keeps it out of argv and environment.

`PrivateDirectory` exists for one call and is readable by this user only. Keys must be files,
because ssh accepts nothing else. They are in memory-backed storage where the machine has some,
mode 0600 in a directory of mode 0700, and removed after the call. The name of the directory
contains our process id, so that the next process recognizes and removes what a killed one left.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlsplit

from windlass.git.credentials import Credentials, Proxy
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings

_PREFIX = "windlass-git-"
# Names of the private directories of this process that are in use.
_mine: set[str] = set()


class PrivateDirectory:
    """A directory for the files of one call; a context manager that removes it."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.path = base

    def __enter__(self) -> Self:
        self.path = self._base / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        # Before it exists: another thread may be removing what dead processes left.
        _mine.add(self.path.name)
        try:
            self.path.mkdir(mode=0o700)
        except BaseException:
            _mine.discard(self.path.name)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        _mine.discard(self.path.name)

    def write(self, name: str, content: bytes) -> Path:
        """Create a file of mode 0600; returns its path."""
        path = self.path / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return path

    def make_empty(self, name: str) -> Path:
        """Create an empty directory; returns its path."""
        path = self.path / name
        path.mkdir(mode=0o700)
        return path


def private_base(configured: Path | None) -> Path:
    """The directory to create private directories in: configured, memory-backed or temporary."""
    if configured is not None:
        configured.mkdir(mode=0o700, parents=True, exist_ok=True)
        return configured
    for candidate in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):  # noqa: S108
        if candidate and os.access(candidate, os.W_OK | os.X_OK):
            return Path(candidate)
    return Path(tempfile.gettempdir())


def remove_leftovers(base: Path) -> None:
    """Remove private directories that dead processes left."""
    for path in base.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if path.name not in _mine and owner.isdigit() and not _is_other_running(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _is_other_running(pid: int) -> bool:
    """Whether the process runs and is not this one."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_HELPER = Path(__file__).with_name("credential_helper.sh")
_DESCRIPTORS = Path("/proc/self/fd")
"""On Linux an inherited descriptor can be opened again here and read from its beginning."""

_FIXED: tuple[tuple[str, str], ...] = (
    ("protocol.allow", "never"),
    ("core.fsmonitor", "false"),
    ("core.symlinks", "false"),
    ("core.protectNTFS", "true"),
    ("core.protectHFS", "true"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("credential.interactive", "false"),
    ("transfer.fsckObjects", "true"),
    # Common in old repositories, and harmless in a bare store.
    ("fetch.fsck.zeroPaddedFilemode", "ignore"),
    ("fetch.fsck.badTimezone", "ignore"),
    ("transfer.bundleURI", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    ("http.followRedirects", "false"),
    ("http.sslVerify", "true"),
    # A minimum: libcurl takes it as "TLS 1.2 or later".
    ("http.sslVersion", "tlsv1.2"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("pack.threads", "1"),
    ("pack.windowMemory", "64m"),
    ("advice.pushUpdateRejected", "false"),
)


def fixed_variables(directory: PrivateDirectory, global_config: Path | str) -> dict[str, str]:
    """The variables every child gets."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(directory.path),
        "TMPDIR": str(directory.path),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(global_config),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CEILING_DIRECTORIES": str(directory.path.parent),
    }


def configuration_variables(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Configuration as git reads it from its environment."""
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def base_pairs(settings: GitSettings, hooks: Path) -> list[tuple[str, str]]:
    """Configuration of every child, with or without a remote."""
    return [
        *_FIXED,
        ("core.hooksPath", str(hooks)),
        ("http.lowSpeedLimit", str(settings.low_speed_bytes)),
        ("http.lowSpeedTime", str(settings.low_speed_seconds)),
    ]


def http_pairs(
    remote: Remote,
    credentials: Credentials,
    directory: PrivateDirectory,
    addresses: Sequence[str],
    helper_descriptor: int | None,
) -> list[tuple[str, str]]:
    """Configuration for http and https: trust, proxy, pinned address, helper."""
    pairs: list[tuple[str, str]] = []
    if credentials.ca:
        bundle = directory.write("ca.pem", credentials.ca.rstrip() + b"\n" + _system_authorities())
        pairs.append(("http.sslCAInfo", str(bundle)))
    if credentials.proxy is not None:
        pairs.append(("http.proxy", _proxy_address(credentials.proxy)))
        pairs.append(("http.proxyAuthMethod", "basic"))
    elif addresses:
        pinned = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
        pairs.append(("http.curloptResolve", f"{remote.host}:{remote.port}:{pinned}"))
    if helper_descriptor is not None:
        pairs.append(("credential.helper", _helper_command(helper_descriptor, directory)))
    return pairs


def helper_content(remote: Remote, credentials: Credentials) -> bytes:
    """The blocks that the credential helper may answer with; empty: no helper is needed."""
    blocks: list[str] = []
    if remote.scheme in {"http", "https"} and credentials.basic is not None:
        blocks.append(_block(remote.scheme, remote.authority, *credentials.basic))
    proxy = credentials.proxy
    if proxy is not None and proxy.username:
        parts = urlsplit(proxy.address)
        blocks.append(_block(parts.scheme, parts.netloc, proxy.username, proxy.password))
    return "\n".join(blocks).encode()


def bearer_config(remote: Remote, credentials: Credentials) -> bytes:
    """The configuration file with the bearer header, for this remote's address only."""
    scope = f"{remote.scheme}://{remote.authority}/"
    value = credentials.bearer.replace("\\", "\\\\").replace('"', '\\"')
    return f'[http "{scope}"]\n\textraHeader = "Authorization: Bearer {value}"\n'.encode()


def _block(protocol: str, host: str, username: str, password: str) -> str:
    return f"protocol={protocol}\nhost={host}\nusername={username}\npassword={password}\n"


def _helper_command(descriptor: int, directory: PrivateDirectory) -> str:
    """The credential helper for git; a shell script, because git starts it twice per call."""
    known = _DESCRIPTORS / str(descriptor)
    if not _DESCRIPTORS.is_dir():
        content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        known = directory.write("credentials", content)
    return "!exec " + shlex.join(["/bin/sh", str(_HELPER), str(known)])


def _proxy_address(proxy: Proxy) -> str:
    if not proxy.username:
        return proxy.address
    scheme, _, host = proxy.address.partition("://")
    return f"{scheme}://{quote(proxy.username, safe='')}@{host}"


def _system_authorities() -> bytes:
    """The CA certificates of the machine, which stay trusted beside a configured CA."""
    bundle = ssl.get_default_verify_paths().cafile
    return Path(bundle).read_bytes() if bundle is not None else b""
