"""Makes the API server trust our admission endpoint.

The leader makes an authority of its own when it starts, and puts it beside the one that
is registered, so that calls made while leaders change are still answered. The webhook
configuration belongs to whoever installed it; only `clientConfig.caBundle` is written.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.kube.api import Api
from windlass.kube.errors import NotFound
from windlass.objects.gvr import GVR
from windlass.objects.json import Object
from windlass.web import certificates
from windlass.web.certificates import Authority, Leaf

WEBHOOK_CONFIGURATIONS = GVR(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"
)

_FIELD_MANAGER = "windlass-webhook"
_AUTHORITY_DAYS = 365
_LEAF_DAYS = 90
_LOOK_SECONDS = 300.0
_RETRY_SECONDS = 5.0
_PEM_END = b"-----END CERTIFICATE-----"

_log = structlog.get_logger(__name__)


class WebhookTrust:
    """The certificate we serve with, and its registration."""

    def __init__(
        self,
        api: Api,
        configuration: str,
        *,
        dns_names: tuple[str, ...],
        ip_addresses: tuple[str, ...],
        clock: Clock,
    ) -> None:
        self.registered = False
        self._api = api
        self._configuration = configuration
        self._dns_names = dns_names
        self._ip_addresses = ip_addresses
        self._clock = clock
        self._authority = Authority.create("windlass", clock.now(), _AUTHORITY_DAYS)
        self.leaf = self._issue()

    def _renew(self) -> None:
        """A fresh leaf, of a fresh authority where the old one is past its best."""
        now = self._clock.now()
        if certificates.renewal_due(self._authority.cert_pem, now):
            self._authority = Authority.create("windlass", now, _AUTHORITY_DAYS)
        self.leaf = self._issue()

    def _issue(self) -> Leaf:
        return self._authority.issue(
            self._dns_names, self._ip_addresses, self._clock.now(), _LEAF_DAYS
        )

    async def keep(self, on_renewed: Callable[[], None]) -> None:
        """Register now, look again and renew from time to time, until cancelled."""
        while True:
            if certificates.renewal_due(self.leaf.cert_pem, self._clock.now()):
                self._renew()
                on_renewed()
            try:
                await self.register()
                await asyncio.sleep(_LOOK_SECONDS)
            except WindlassError as error:
                self.registered = False
                _log.warning("webhook not registered", reason=error.reason, message=error.message)
                await asyncio.sleep(_RETRY_SECONDS)

    async def register(self) -> None:
        """Have the API server trust our authority, beside the one it trusts already."""
        try:
            found = await self._api.get(WEBHOOK_CONFIGURATIONS, self._configuration)
        except NotFound as error:
            raise WindlassError(
                "WebhookMissing",
                f"ValidatingWebhookConfiguration {self._configuration} does not exist; install it "
                "to have changes credited to people",
            ) from error
        hooks = found.get("webhooks") or []
        wanted = [self._bundle(hook) for hook in hooks]
        if [_bundle_of(hook) for hook in hooks] != wanted:
            await self._write(wanted)
        self.registered = True

    def _bundle(self, hook: Object) -> bytes:
        """Ours, and of those registered the newest that is not ours."""
        now, ours = self._clock.now(), self._authority.cert_pem
        others = certificates.bundle(now, _bundle_of(hook)).replace(ours, b"")
        end = others.find(_PEM_END)
        previous = others[: end + len(_PEM_END)] + b"\n" if end >= 0 else b""
        return certificates.bundle(now, ours, previous)

    async def _write(self, bundles: list[bytes]) -> None:
        patch = [
            {
                "op": "add",
                "path": f"/webhooks/{number}/clientConfig/caBundle",
                "value": base64.b64encode(bundle).decode(),
            }
            for number, bundle in enumerate(bundles)
        ]
        await self._api.json_patch(
            WEBHOOK_CONFIGURATIONS, self._configuration, patch, field_manager=_FIELD_MANAGER
        )


def _bundle_of(hook: Object) -> bytes:
    text = (hook.get("clientConfig") or {}).get("caBundle") or ""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
