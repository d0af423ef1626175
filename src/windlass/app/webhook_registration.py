"""Registers our admission webhook with the API server, and keeps its certificate trusted.

The leader keeps one Secret in its own namespace with CA, server certificate and path; the next
leader serves with the same, so a failover changes nothing that the API server would have to
load. The webhook configuration belongs to whoever installed it: it is watched, and only
`caBundle` and the path of its `clientConfig` are corrected.

| Observed | Then |
|---|---|
| no Secret, or one that cannot be read | created anew; the old path is accepted for a while |
| certificate due | certificate and path are renewed, the Secret first, then the endpoint |
| `caBundle` or path not ours | patched; calls until then may have failed |
| no configuration | reported; changes have no author until there is one |
| one that covers less than the shipped one | the same: nothing contradicts a forged review |
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog

from windlass.api.install import webhook
from windlass.api.install.installation import Installation
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import NotFound
from windlass.kube.reflector import Scope
from windlass.objects.names import Object
from windlass.objects.resources import SECRETS, WEBHOOK_CONFIGURATIONS
from windlass.runtime.informer_registry import InformerRegistry
from windlass.web import certificates, webhook_identity
from windlass.web.webhook_identity import ServingNames, WebhookIdentity

_FIELD_MANAGER = "windlass-webhook"
_RESYNC_SECONDS = 300.0
_RETRY_SECONDS = 5.0
_PEM_END = b"-----END CERTIFICATE-----"

_log = structlog.get_logger(__name__)


class WebhookRegistration:
    """Identity of the webhook, its Secret and its registration.

    `on_registered` is called with True once the API server is configured to call us, with False
    before it changes.
    """

    def __init__(
        self,
        connection: Connection,
        installation: Installation,
        names: ServingNames,
        clock: Clock,
        *,
        on_registered: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._api = Api(connection)
        self._installation = installation
        self._names = names
        self._clock = clock
        self._on_registered = on_registered
        # CA, certificate and path; None before the Secret was read.
        self._identity: WebhookIdentity | None = None
        # Certificate and paths that the endpoint was last given.
        self._served: tuple[str, ...] = ()
        # Whether the webhook configuration had our CA and path when it was last read.
        self._registered = False
        # Reason and message of the failure that was logged last; None after a success.
        self._logged: tuple[str, str] | None = None
        # Set when the Secret or the webhook configuration changed.
        self._wake = asyncio.Event()

    @property
    def identity(self) -> WebhookIdentity:
        assert self._identity is not None, "the identity is loaded before it is served"
        return self._identity

    @property
    def paths(self) -> list[str]:
        """The paths that are accepted now, the registered one first."""
        return [webhook.PATH_PREFIX + token for token in self.identity.tokens(self._clock.now())]

    async def run(self, on_changed: Callable[[], None]) -> None:
        """Reconcile Secret and registration until cancelled.

        `on_changed` is called when the endpoint must serve something else than before, the
        first time included.
        """
        installation = self._installation
        informers = InformerRegistry(self._connection, clock=self._clock)
        for scope in (
            Scope(WEBHOOK_CONFIGURATIONS, name=installation.webhook_configuration),
            Scope(SECRETS, installation.namespace, name=installation.webhook_secret),
        ):
            informers.add(scope, lambda _: self._wake.set(), keep="digest")
        async with asyncio.TaskGroup() as group:
            informers.start(group)
            while True:
                seconds = await self._reconcile(on_changed)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._wake.wait()

    async def _reconcile(self, on_changed: Callable[[], None]) -> float:
        """Reconcile once; returns the seconds until the next time, if nothing changes before."""
        self._wake.clear()
        try:
            await self._reconcile_secret()
            if self._served != (served := (self.identity.leaf.cert_pem.decode(), *self.paths)):
                self._served = served
                on_changed()
            await self.register()
        except WindlassError as error:
            # An API server that does not respond does not undo the registration.
            if not self._registered:
                self._on_registered(False)
            self._log_failure(error)
            return _RETRY_SECONDS
        self._log_success()
        overlap = self.identity.changed + webhook_identity.OVERLAP - self._clock.now()
        ends = overlap.total_seconds()
        return min(_RESYNC_SECONDS, ends) if ends > 0 else _RESYNC_SECONDS

    def _log_failure(self, error: WindlassError) -> None:
        """Log a failure once, however often it is retried."""
        if self._logged != (failure := (error.reason, error.message)):
            self._logged = failure
            _log.warning(
                "webhook registration failed, retrying", reason=error.reason, message=error.message
            )

    def _log_success(self) -> None:
        if self._logged is not None:
            self._logged = None
            _log.info("webhook registered", name=self._installation.webhook_configuration)

    # ---- the Secret

    async def _reconcile_secret(self) -> None:
        """Load the identity from the Secret, after renewing it there where that is due."""
        now, secret = self._clock.now(), await self._get_secret()
        current = (
            webhook_identity.read_identity(secret.get("data") or {}) if secret is not None else None
        )
        if current is None and self._identity is not None:
            # Deleted or damaged while we serve: an administrator requests a new certificate so.
            current = webhook_identity.renew_identity(self._identity, self._names, now)
        elif current is None:
            current = webhook_identity.create_identity(self._names, now)
        elif webhook_identity.needs_renewal(current, self._names, now):
            current = webhook_identity.renew_identity(current, self._names, now)
        else:
            self._identity = current
            return
        await self._write_secret(current, secret)
        self._identity = current

    async def _get_secret(self) -> Object | None:
        namespace = self._installation.namespace
        try:
            return await self._api.get(SECRETS, self._installation.webhook_secret, namespace)
        except NotFound:
            return None

    async def _write_secret(self, current: WebhookIdentity, live: Object | None) -> None:
        metadata = {
            "name": self._installation.webhook_secret,
            "namespace": self._installation.namespace,
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
        secret["data"] = webhook_identity.secret_data(current)
        if live is None:
            await self._api.create(SECRETS, secret, field_manager=_FIELD_MANAGER)
        else:
            version = live["metadata"]["resourceVersion"]
            secret["metadata"] = metadata | {"resourceVersion": version}
            await self._api.replace(SECRETS, secret, field_manager=_FIELD_MANAGER)
        _log.info("webhook certificate renewed", secret=self._installation.webhook_secret)

    # ---- the configuration

    async def register(self) -> None:
        """Patch our path and CA into the webhook configuration, beside the CA it trusts."""
        name = self._installation.webhook_configuration
        try:
            configuration = await self._api.get(WEBHOOK_CONFIGURATIONS, name)
        except NotFound as error:
            self._registered = False
            raise WindlassError(
                "WebhookMissing",
                f"ValidatingWebhookConfiguration {name} does not exist; install it to "
                "attribute changes to users",
            ) from error
        covering = self._covering_hooks(configuration)
        if not covering:
            self._registered = False
            raise WindlassError(
                "WebhookDiffers",
                f"ValidatingWebhookConfiguration {name} differs from the shipped one; apply "
                "deploy/webhook again to attribute changes to users",
            )
        patch = [operation for number, hook in covering for operation in self._patch(number, hook)]
        if patch:
            self._on_registered(False)
            await self._api.json_patch(
                WEBHOOK_CONFIGURATIONS, name, patch, field_manager=_FIELD_MANAGER
            )
        self._registered = True
        self._on_registered(True)

    def _covering_hooks(self, configuration: Object) -> list[tuple[int, Object]]:
        """The webhooks that send us all that the shipped one would, with their numbers."""
        hosts = (*self._names.dns, *self._names.addresses)
        return [
            (number, hook)
            for number, hook in enumerate(configuration.get("webhooks") or ())
            if webhook.covers_declared(hook, self._installation, hosts)
        ]

    def _patch(self, number: int, hook: Object) -> list[Object]:
        client = hook.get("clientConfig") or {}
        client_path = f"/webhooks/{number}/clientConfig"
        bundle = base64.b64encode(self._ca_bundle(client)).decode()
        fields = {f"{client_path}/caBundle": (client.get("caBundle"), bundle)}
        path = self.paths[0]
        if "url" in client:
            fields[f"{client_path}/url"] = (client["url"], _url_root(client["url"]) + path)
        elif "service" in client:
            fields[f"{client_path}/service/path"] = (client["service"].get("path"), path)
        return [
            {"op": "add", "path": pointer, "value": new}
            for pointer, (old, new) in fields.items()
            if old != new
        ]

    def _ca_bundle(self, client: Object) -> bytes:
        """Our CA certificate, and of the registered ones the newest other."""
        now, ours = self._clock.now(), self.identity.authority.cert_pem
        others = certificates.bundle(now, _registered_bundle(client)).replace(ours, b"")
        end = others.find(_PEM_END)
        previous = others[: end + len(_PEM_END)] + b"\n" if end >= 0 else b""
        return certificates.bundle(now, ours, previous)


def _url_root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _registered_bundle(client: Object) -> bytes:
    try:
        return base64.b64decode(client.get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""
