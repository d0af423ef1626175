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
from windlass.base.errors import Waiting, WindlassError
from windlass.gateways.controller.ref_poller import PollQuery, PollResult, RefPoller
from windlass.gateways.controller.snapshot import Snapshot
from windlass.gateways.controller.step_errors import StepErrors
from windlass.gateways.wire import metadata, metadata_builder
from windlass.gateways.wire.metadata import CommitSource
from windlass.git.credentials import Credentials
from windlass.git.format.refs import ResolvedRef
from windlass.git.format.remote import Remote
from windlass.kube.api import Api
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef


@dataclass(frozen=True, slots=True)
class SourceResult:
    """The commit in force, and what the newest look for it came to."""

    source: CommitSource | None
    resolution: ResolvedRef | None = None
    failure: WindlassError | None = None
    due_seconds: float | None = None


class SourceReader:
    """The looks of all passes."""

    def __init__(self, api: Api, asking: RefPoller) -> None:
        self._api = api
        self._ref_poller = asking

    async def resolve_commit(
        self, seen: Snapshot, sync: IgnitionSync, remote: Remote, faults: StepErrors
    ) -> SourceResult:
        """The commit in force, after a look at the remote where one is due."""
        told = metadata.decode_source(seen.published_data)
        sought = SourceResult(told)
        if sync.spec.paused:
            return sought
        try:
            with faults.collect("reading the Git Secret"):
                answer = await self._poll(seen, sync, remote)
                sought = self._to_result(sync, remote, told, answer)
        except Waiting as missing:
            return SourceResult(told, failure=missing, due_seconds=missing.after)
        return sought

    async def check_api_key(self, sync: IgnitionSync, faults: StepErrors) -> Waiting | None:
        """What is missing for speaking to gateways, None if nothing is."""
        if sync.spec.ignition.scan.mode == "Off":
            return None
        try:
            with faults.collect("reading the API key"):
                await require_api_key(self._api, sync)
        except Waiting as missing:
            return missing
        return None

    async def _poll(self, seen: Snapshot, sync: IgnitionSync, remote: Remote) -> PollResult:
        found = await read_git_credentials(self._api, sync)
        polling = sync.spec.polling
        question = PollQuery(
            remote,
            found.fingerprint,
            sync.spec.git.ref,
            seen.request,
            sync.metadata.generation,
            self._missing_commit(seen),
        )
        return await self._ref_poller.poll(
            seen.key,
            question,
            found,
            interval_seconds=clock.parse_duration(polling.interval) if polling.enabled else None,
        )

    def _missing_commit(self, seen: Snapshot) -> str:
        """The commit that was told, if it is not to be had any more; else nothing."""
        told = metadata.decode_source(seen.published_data)
        if told is None:
            return ""
        is_lost = seen.reports_missing_commit or self._ref_poller.is_reported_missing(
            seen.key, told.commit
        )
        return told.commit if is_lost else ""

    def _to_result(
        self, sync: IgnitionSync, remote: Remote, told: CommitSource | None, answer: PollResult
    ) -> SourceResult:
        due = self._ref_poller.seconds_until_due(answer)
        if answer.resolution is None:
            return SourceResult(told, failure=answer.error, due_seconds=due)
        source = metadata_builder.build_source(
            sync.spec, remote.url, sync.spec.git.ref, answer.resolution.commit
        )
        return SourceResult(source, answer.resolution, due_seconds=due)


API_KEY_KEYS = ("apiKey",)


async def read_git_credentials(api: Api, sync: IgnitionSync) -> Credentials:
    """Who fetches; Waiting says which Secret or key is missing."""
    return await credentials.read_credentials(
        api, sync.metadata.namespace, credential_refs(sync.spec.git)
    )


async def require_api_key(api: Api, sync: IgnitionSync) -> None:
    """Waiting, where the key for the gateways is not there; nobody here looks at its value."""
    ref = _key_ref(sync.spec.gateway.api_key_secret_ref)
    await credentials.read_key(api, sync.metadata.namespace, ref, API_KEY_KEYS)


def credential_refs(git: GitSource) -> CredentialRefs:
    """Where the credentials of a repository are."""
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
