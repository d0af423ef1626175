"""Which cluster, as whom, and by which way.

The file that is named wins; else the files of KUBECONFIG, in which the first that
knows the context wins, then ~/.kube/config, then the service account of the pod. A
proxy of the environment is used as elsewhere, except towards this machine itself,
where a proxy can only be in the way.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from windlass.base.errors import Stalled
from windlass.kube.errors import clean


def load(kubeconfig: Path | None, context: str | None) -> SingleConfig:
    """The one configuration that is meant; Stalled says what is missing and where."""
    candidates = list(_files(kubeconfig))
    if not candidates:
        return _from_pod()
    configs = [_read(path) for path in candidates]
    wanted = context or next((c.current_context for c in configs if c.current_context), None)
    if not wanted:
        raise Stalled(
            "KubeconfigInvalid", f"{candidates[0]} has no current-context; set one or name one"
        )
    config = next((c for c in configs if wanted in c.contexts), None)
    if config is None:
        places = ", ".join(map(str, candidates))
        raise Stalled("KubeconfigInvalid", f"no context {wanted!r} in {places}")
    return _selected(config, wanted)


def proxy_for(server: str) -> str | None:
    """The proxy of the environment on the way to `server`, if one is to be used."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if _is_this_machine(host):
        return None
    proxies = getproxies()
    if proxy_bypass(host):
        return None
    found = proxies.get(parts.scheme) or proxies.get("all")
    return found if not found or "://" in found else f"http://{found}"


def _files(kubeconfig: Path | None) -> Iterator[Path]:
    if kubeconfig is not None:
        yield kubeconfig
        return
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        # A list may name files that do not exist yet; a single name must be right.
        yield from [path for path in named if path.is_file()] or named[:1]
        return
    home = Path(DEFAULT_KUBECONFIG).expanduser()
    if home.is_file():
        yield home


def _read(path: Path) -> KubeConfig:
    try:
        return KubeConfig.from_file(path)
    except (ConfigError, OSError) as error:
        raise Stalled("KubeconfigInvalid", clean(str(error))) from error
    except (yaml.YAMLError, msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        # The parser's own text may quote the line, and the line may be a credential.
        raise Stalled("KubeconfigInvalid", f"{path} is not a kubeconfig") from error


def _from_pod() -> SingleConfig:
    try:
        chosen = KubeConfig.from_service_account().get()
    except (ConfigError, KeyError, OSError) as error:
        raise Stalled(
            "KubeconfigMissing",
            "no cluster to speak to: name a kubeconfig, set KUBECONFIG, "
            f"write {DEFAULT_KUBECONFIG}, or run in a pod with a service account",
        ) from error
    assert chosen is not None
    return chosen


def _selected(config: KubeConfig, context: str) -> SingleConfig:
    try:
        chosen = config.get(context)
    except KeyError as error:
        raise Stalled(
            "KubeconfigInvalid",
            f"context {context!r} names {error.args[0]!r}, which {config.fname} does not define",
        ) from error
    assert chosen is not None
    user = chosen.user or User()
    if user.token_file:
        user.token_file = str(chosen.abs_file(user.token_file))
    return chosen._replace(user=user)


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
