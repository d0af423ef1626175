"""Values that charts generate, of charts built like well-known public ones."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.environments import generating_charts, helm
from tests.support.environments.environment_harness import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    SECRETS,
    EnvironmentHarness,
)
from tests.support.environments.manifests import OWNER, TARGET
from tests.support.processes.polling import eventually
from windlass.api.kinds.project_sources import Template
from windlass.environments.bundle import bundle as bundles
from windlass.environments.render import helm_command
from windlass.environments.render import manifests as chart_objects
from windlass.environments.render.api_capabilities import ApiCapabilities
from windlass.environments.render.output_store import OutputMemory, OutputStore
from windlass.environments.render.renderer import ChartRenderer, RenderRequest
from windlass.objects.names import GVR, Object

pytestmark = pytest.mark.cluster

STATEFUL_SETS = GVR("apps", "v1", "statefulsets")
FIXTURE = Path(__file__).parents[2] / "fixtures" / "kept_chart_before_notes.json"
_TEMPLATES = {"default": {"type": "helm", "path": "chart"}}


def _below(files: dict[str, str]) -> dict[str, str]:
    return {f"chart/{path}": text for path, text in files.items()}


async def _secrets(tenant: EnvironmentHarness, namespace: str) -> dict[str, Any]:
    rows = await tenant.api.list(SECRETS, namespace)
    return {
        row["metadata"]["name"]: {
            key: base64.b64decode(text).decode() for key, text in row["data"].items()
        }
        for row in rows
        if not row["metadata"]["name"].startswith("windlass-")
    }


async def _commit(tenant: EnvironmentHarness, files: dict[str, str]) -> Any:
    """Commit files, and wait until that commit is ready."""
    commit = tenant.commit(files)
    await tenant.request_reconcile()

    async def ready() -> Any:
        environment = await tenant.get()
        status = environment["status"]
        serves_commit = (status.get("serving") or {}).get("commits", {}).get("app") == commit
        return environment if serves_commit and status["phase"] == "Ready" else None

    return await eventually(ready, f"{commit} is ready")


async def test_a_database_keeps_its_passwords_when_its_chart_changes(
    tenant: EnvironmentHarness,
) -> None:
    """A README changes nothing; configuration restarts it; only a set password is new."""
    tenant.commit(_below(generating_charts.postgresql()))
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates=_TEMPLATES), tenant.environment())
        environment = await tenant.phase("Ready")
        assert not environment["status"].get("unsupported")
        namespace = await tenant.environment_namespace()
        before = await _secrets(tenant, namespace)
        database = await tenant.api.get(STATEFUL_SETS, "one-postgresql", namespace)
        environment = await _commit(tenant, {"chart/README.md": "one more line"})
        assert environment["status"]["revision"] == 1
        assert await _secrets(tenant, namespace) == before
        other = _postgresql(version="1.1.0", connections=200, domain="elsewhere")
        environment = await _commit(tenant, _below(other))
        assert environment["status"]["revision"] == 2
        moved = await _secrets(tenant, namespace)
        password = before["one-app"]["password"]
        uri = f"postgresql://app:{password}@one-postgresql.elsewhere.svc:5432/app"
        assert moved == {**before, "one-app": {"password": password, "uri": uri}}
        shown = (await tenant.api.get(CONFIG_MAPS, "one-app", namespace))["data"]
        assert f"PASSWORD '{password}'" in shown["init.sql"]
        assert shown["jdbc"].endswith(f"elsewhere.svc/app?user=app&password={password}")
        assert base64.b64decode(shown["encoded"]).decode() == password
        ca = (await tenant.api.get(CONFIG_MAPS, "one-ca", namespace))["data"]["ca.crt"]
        assert ca == before["one-crt"]["ca.crt"].strip()
        live = await tenant.api.get(STATEFUL_SETS, "one-postgresql", namespace)
        sums, old = _annotations(live), _annotations(database)
        assert all(sums[name] != old[name] for name in old)
        await _commit(tenant, _below(_postgresql(password="chosen", replication=True)))
        chosen = (await _secrets(tenant, namespace))["one-postgresql"]
        assert chosen["postgres-password"] == "chosen"
        assert len(chosen["replication-password"]) == 16


async def test_a_chart_and_its_subchart_keep_a_shared_password(tenant: EnvironmentHarness) -> None:
    """The parent's Secret has the subchart's password; only changed workloads restart."""
    tenant.commit(_below(generating_charts.wordpress()))
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates=_TEMPLATES), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        before = await _secrets(tenant, namespace)
        assert before["one-mariadb"]["mariadb-password"] in before["one-database"]["url"]
        await _commit(tenant, _below(generating_charts.wordpress(version="1.0.1")))
        assert await _secrets(tenant, namespace) == before
        await _commit(tenant, _below(generating_charts.wordpress(password="chosen")))
        site = await tenant.api.get(DEPLOYMENTS, "one-wordpress", namespace)
        database = await tenant.api.get(STATEFUL_SETS, "one-mariadb", namespace)
        assert (site["metadata"]["generation"], database["metadata"]["generation"]) == (2, 1)
        after = await _secrets(tenant, namespace)
        assert after == {**before, "one-wordpress": {"wordpress-password": "chosen"}}


async def test_values_that_change_with_every_render_are_listed(tenant: EnvironmentHarness) -> None:
    """Also after a restart; values in Secrets stay, salted hashes included."""
    tenant.commit(_below(generating_charts.redis()))
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates=_TEMPLATES), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        before = (await _secrets(tenant, namespace))["one-redis"]
        environment = await _commit(tenant, _below(generating_charts.redis(memory="1mb")))
        assert (await _secrets(tenant, namespace))["one-redis"] == before
        listed = environment["status"]["unsupported"]
    text = "\n".join(listed)
    assert len(listed) == 4
    assert "ConfigMap/one-redis data.run-id is generated" in text
    assert "spec.template.metadata.annotations.rollme is generated" in text
    assert "spec.template.spec.containers[0].env[0].value is generated" in text
    assert "has a generated name" in text
    async with tenant.running(helm=helm.helm_program()):
        await tenant.request_reconcile()
        assert (await tenant.get())["status"]["unsupported"] == listed


async def test_an_output_stored_by_an_older_version_is_used(
    tenant: EnvironmentHarness, tmp_path: Path
) -> None:
    """The same inputs give the stored output; others keep its values, and nothing restarts."""
    old = orjson.loads(FIXTURE.read_bytes())
    stored_secret = {**old, "metadata": {**old["metadata"], "namespace": tenant.namespace}}
    await tenant.api.create(SECRETS, stored_secret, field_manager="windlass-test")
    capabilities: Any = _Capabilities()
    store = OutputStore(tenant.api, field_manager="windlass-test")
    charts = ChartRenderer(helm.helm(tmp_path), capabilities, store)
    target = replace(TARGET, namespace=tenant.namespace)
    memory = OutputMemory()
    stored = await store.get(target.namespace, OWNER, memory)
    assert stored is not None
    assert stored.inputs == helm_command.inputs_digest(
        "tree-1", "chart", (), (), ("one", TARGET.namespace)
    )
    files = _below(generating_charts.postgresql())
    contents = {path: text.encode() for path, text in files.items()}
    request = RenderRequest(Template(type="helm", path="chart"), (), "one")
    output = await charts.render(request, "tree-2", contents, target, memory)
    assert output.inputs != stored.inputs
    assert _digest(output.text) == _digest(stored.text)
    await charts.store(output, target, memory)
    again = await charts.render(request, "tree-2", {}, target, memory)
    assert again == output


class _Capabilities:
    async def get(self) -> ApiCapabilities:
        return ApiCapabilities("v1.35.4", ())


def _digest(output: bytes) -> str:
    return bundles.build_bundle(chart_objects.read_chart(output).manifests, TARGET).digest


def _annotations(live: Object) -> dict[str, str]:
    annotations: dict[str, str] = live["spec"]["template"]["metadata"]["annotations"]
    return annotations


def _postgresql(
    *,
    version: str = "1.0.0",
    connections: int = 100,
    domain: str = "default",
    password: str = "",
    replication: bool = False,
) -> dict[str, str]:
    auth = f"{{postgresPassword: '{password}', replication: {str(replication).lower()}}}"
    values = f"replicas: 0\ntag: '17'\nconnections: {connections}\ndomain: {domain}\n"
    return generating_charts.postgresql(version=version, values=f"{values}auth: {auth}\n")
