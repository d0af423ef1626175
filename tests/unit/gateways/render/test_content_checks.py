"""Which contents may be written to a gateway."""

from __future__ import annotations

import pytest

from windlass.gateways.render import content_checks
from windlass.gateways.render.content_checks import ContentFinding


@pytest.mark.scenario("G34")
@pytest.mark.parametrize("name", sorted(content_checks.GATEWAY_FILES))
def test_files_of_the_gateway_must_be_json(name: str) -> None:
    """Broken JSON in a file that the gateway reads is an error with file, line and column."""
    [finding] = content_checks.check_content(f"projects/p/{name}", b'{\r\n "a": tru}')
    assert (finding.level, finding.reason) == ("error", "ConfigSyntaxError")
    assert str(finding).startswith(f"projects/p/{name}:2:7: invalid JSON: ")
    assert content_checks.check_content(f"projects/p/{name}", b'\xef\xbb\xbf{"a": 1.0e5}\r\n') == ()


def test_broken_json_in_other_files_is_a_warning() -> None:
    """Files without the suffix .json are not checked."""
    [finding] = content_checks.check_content("projects/p/view.json", b"{")
    assert finding.level == "warning"
    assert content_checks.check_content("projects/p/code.py", b"{") == ()


@pytest.mark.scenario("G22")
@pytest.mark.parametrize(
    ("collection", "content", "is_refused"),
    [
        ("core", b'{"parent": "core"}', True),
        ("prd", b'\xef\xbb\xbf{"title": "x", "parent": "p\\u0072d"}', True),
        ("core", b'{"parent": "system", "meta": {"parent": "core"}}', False),
        ("prd", b'{"parent": "core"}', False),
        ("prd", b'{"parent": null}', False),
        ("core", b'["parent", "core"]', False),
        ("core/deeper", b'{"parent": "core/deeper"}', False),
    ],
)
def test_a_collection_must_not_be_its_own_parent(
    collection: str, content: bytes, is_refused: bool
) -> None:
    """By the content of its config-mode.json, however that came there."""
    path = f"config/resources/{collection}/config-mode.json"
    findings = content_checks.check_content(path, content)
    assert [finding.level for finding in findings] == ["error"] * is_refused
    assert all(f'parent "{collection}" is' in str(finding) for finding in findings)


def test_a_path_below_the_runtime_store_is_an_error() -> None:
    """Whatever the file below .resources contains."""
    [finding] = content_checks.check_content("projects/.resources/x/config.json", b"{}")
    assert finding.level == "error"
    assert finding.reason == "StagingDirectoryContainsRuntimeFiles"
    assert content_checks.check_content("projects/a.resources/config.json", b"{}") == ()


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b'{"files": ["config.json", "d\\u0061ta.bin", 1]}', ("config.json", "data.bin")),
        (b'{"files": []}', ()),
        (b'{"files": {"a": "b"}}', ()),
        (b'{"files": "a"}', ()),
        (b"[]", ()),
        (b"{", ()),
    ],
)
def test_payload_names_are_read(content: bytes, names: tuple[str, ...]) -> None:
    """The strings under `files`; anything else is ignored."""
    assert content_checks.payload_names(content) == names


def test_missing_payloads_and_mode_files_are_warnings() -> None:
    """A missing payload, and a collection without config-mode.json."""
    paths = [
        "config/resources/core/config-mode.json",
        "config/resources/core/m/t/resource.json",
        "config/resources/core/m/t/config.json",
        "config/resources/prod/m/t/resource.json",
        "config/resources/readme.txt",
        "projects/p/project.json",
    ]
    listed = {
        "config/resources/core/m/t/resource.json": ["config.json"],
        "config/resources/prod/m/t/resource.json": ["config.json"],
    }
    assert content_checks.check_tree(paths, listed) == (
        ContentFinding(
            "warning",
            "PayloadMissing",
            "config/resources/prod/m/t/resource.json",
            "lists file 'config.json', which is missing",
        ),
        ContentFinding(
            "warning",
            "ConfigModeMissing",
            "config/resources/prod",
            "config-mode.json is missing, so the gateway ignores this collection",
        ),
    )
