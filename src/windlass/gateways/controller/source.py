"""Resolves what an IgnitionSync needs from outside: its commit, and the Secrets it names.

Called once per reconcile. While no new commit can be resolved, the published one stays in
force; a paused IgnitionSync asks no remote. Secrets are read by name on every reconcile
(REC-3), and the value of the API key is never used here.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.api.kinds.ignitionsync_source import GitSource
from windlass.api.schema.object_references import SecretKeyRef
from windlass.base import clock
from windlass.base.errors import Pending, Waiting, WindlassError
from windlass.gateways.controller.ref_poller import PollQuery, PollResult, RefPoller
from windlass.gateways.controller.snapshot import Snapshot
from windlass.gateways.controller.step_errors import StepErrors
from windlass.gateways.wire import metadata, metadata_builder
from windlass.gateways.wire.metadata import CommitSource
from windlass.git.credentials import Credentials
from windlass.git.format.refs import ResolvedRef
from windlass.git.format.remote import Remote
from windlass.kube.api import Api
from windlass.runtime.controller import PENDING_SECONDS
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef


@dataclass(frozen=True, slots=True)
class SourceResult:
    """The commit in force, and the result of the newest poll for it."""

    source: CommitSource | None  # None before the first commit was resolved
    resolution: ResolvedRef | None = None  # None if the remote was not asked, or failed
    failure: WindlassError | None = None  # why `source` may be outdated
    due_seconds: float | None = None  # until the next poll or read of a Secret; None for never


class SourceReader:
    """Reads commits and Secrets for all reconciles; it keeps no state but the poller's."""

    def __init__(self, api: Api, ref_poller: RefPoller) -> None:
        self._api = api
        self._ref_poller = ref_poller

    async def resolve_commit(
        self, snapshot: Snapshot, sync: IgnitionSync, remote: Remote, errors: StepErrors
    ) -> SourceResult:
        """The commit in force, after polling the remote where that is due."""
        published = metadata.decode_source(snapshot.published_data)
        # Also the result after an API error, which `collect` swallows: the commit stays.
        result = SourceResult(published)
        if sync.spec.paused:
            return result
        try:
            with errors.collect("Git Secret"):
                polled = await self._poll(snapshot, sync, remote)
                result = self._to_result(sync, remote, published, polled)
        except Waiting as missing:
            return SourceResult(published, failure=missing, due_seconds=missing.after)
        except Pending as pending:
            # A published commit is not reported for a spec that may name another; a first one that
            # takes long is, so that its user sees what it waits for.
            if published is not None or pending.seconds < PENDING_SECONDS:
                raise
        return result

    async def check_api_key(self, sync: IgnitionSync, errors: StepErrors) -> Waiting | None:
        """Why gateways cannot be scanned for lack of an API key; None if they can."""
        if sync.spec.ignition.scan.mode == "Off":
            return None
        try:
            with errors.collect("API key Secret"):
                await require_api_key(self._api, sync)
        except Waiting as missing:
            return missing
        return None

    async def _poll(self, snapshot: Snapshot, sync: IgnitionSync, remote: Remote) -> PollResult:
        git_credentials = await read_git_credentials(self._api, sync)
        polling = sync.spec.polling
        query = PollQuery(
            remote,
            git_credentials.fingerprint,
            sync.spec.git.ref,
            snapshot.request,
            sync.metadata.generation,
            self._missing_commit(snapshot),
        )
        return await self._ref_poller.poll(
            snapshot.key,
            query,
            git_credentials,
            interval_seconds=clock.parse_duration(polling.interval) if polling.enabled else None,
        )

    def _missing_commit(self, snapshot: Snapshot) -> str:
        """The published commit, if the server does not have it any more; else empty (SRC-4)."""
        published = metadata.decode_source(snapshot.published_data)
        if published is None:
            return ""
        is_missing = snapshot.reports_missing_commit or self._ref_poller.is_reported_missing(
            snapshot.key, published.commit
        )
        return published.commit if is_missing else ""

    def _to_result(
        self, sync: IgnitionSync, remote: Remote, published: CommitSource | None, polled: PollResult
    ) -> SourceResult:
        due = self._ref_poller.seconds_until_due(polled)
        if polled.resolution is None:
            return SourceResult(published, failure=polled.error, due_seconds=due)
        source = metadata_builder.build_source(
            sync.spec, remote.url, sync.spec.git.ref, polled.resolution.commit
        )
        return SourceResult(source, polled.resolution, due_seconds=due)


API_KEY_KEYS = ("apiKey",)


async def read_git_credentials(api: Api, sync: IgnitionSync) -> Credentials:
    """The credentials to fetch with; raises Waiting that names the missing Secret or key."""
    return await credentials.read_credentials(
        api, sync.metadata.namespace, credential_refs(sync.spec.git)
    )


async def require_api_key(api: Api, sync: IgnitionSync) -> None:
    """Raise Waiting if the API key of the gateways is missing; its value is not used here."""
    ref = _key_ref(sync.spec.gateway.api_key_secret_ref)
    await credentials.read_key(api, sync.metadata.namespace, ref, API_KEY_KEYS)


def credential_refs(git: GitSource) -> CredentialRefs:
    """Which keys of which Secrets hold the credentials of a repository."""
    ca = _key_ref(git.ca_secret_ref) if git.ca_secret_ref is not None else None
    if git.auth is not None and git.auth.ssh_key is not None:
        ssh = git.auth.ssh_key
        hosts = ssh.known_hosts_secret_ref
        return CredentialRefs(
            ssh_key=_key_ref(ssh.secret_ref),
            known_hosts=_key_ref(hosts) if hosts is not None else None,
            ca=ca,
            verifies_host_keys=not ssh.insecure_skip_host_key_check,
        )
    if git.auth is not None and git.auth.token is not None:
        return CredentialRefs(token=_key_ref(git.auth.token.secret_ref), ca=ca)
    return CredentialRefs(ca=ca)


def _key_ref(ref: SecretKeyRef) -> KeyRef:
    return KeyRef(ref.name, ref.key)
