"""README.md matches the repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.support.cluster.api_kinds import get_kind

_ROOT = Path(__file__).parents[2]
_README = (_ROOT / "README.md").read_text()


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    """Every `make` verb that a document names exists."""
    makefile = (_ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        named = set(re.findall(r"\bmake ([a-z0-9-]+)", (_ROOT / document).read_text()))
        assert named <= targets, f"{document}: {named - targets}"


def test_every_link_has_a_target() -> None:
    """Relative links of the documents exist."""
    for document in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (_ROOT / document).read_text()):
            assert (_ROOT / target).exists(), f"{document} links to {target}"


def test_every_page_is_in_the_list_of_documents() -> None:
    """Every page is linked, and every link has a page."""
    docs = _ROOT / "docs"
    linked = set(re.findall(r"\]\(([^)#:]+)\)", (docs / "README.md").read_text()))
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} - {"README.md"}
    assert pages <= linked
    assert all((docs / target).is_file() for target in linked)


def test_the_example_is_valid() -> None:
    """The manifests of README.md decode as our kinds."""
    block = re.search(r"```yaml\n(.*?)```", _README, re.DOTALL)
    assert block is not None
    for document in yaml.safe_load_all(block[1]):
        kind = get_kind(document["kind"])
        kind.resource.decode(msgspec.json.encode(document))


@pytest.mark.parametrize("command", sorted(set(re.findall(r"windlass ((?:dev )?[a-z]+)", _README))))
def test_every_command_of_the_readme_answers_help(command: str) -> None:
    """Commands that the README names can be run."""
    arguments = command.split()
    known = {"agent", "check", "controller", "dev", "gateway", "mirror", "run"}
    if arguments[0] not in known:
        return
    program = Path(sys.executable).with_name("windlass")
    done = subprocess.run(
        [program, *arguments, "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
