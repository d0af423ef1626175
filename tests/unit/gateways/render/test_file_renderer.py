"""A file rendered by a recipe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.gateways.render import file_renderer
from windlass.gateways.render.file_renderer import RenderRecipe, recipe_digest
from windlass.gateways.render.patching import FieldValue, FilePatch
from windlass.gateways.render.template import TemplateVariables
from windlass.gateways.tree.path_rules import SyncRefused

CONFIG = "config/resources/core/ignition/system-properties/config.json"
RESOURCE = "config/resources/core/ignition/system-properties/resource.json"
FULL = RenderRecipe(
    template=True,
    patches=(FilePatch("", {".systemName": "patched", ".f": "patched"}),),
    fields=(FieldValue(("systemName",), "field"), FieldValue(("f",), "field")),
    system_name="area1",
    variables=TemplateVariables(commit="c1", vars={"v": '"templated"'}),
    signature_policy="drop",
)


def test_transforms_apply_in_order() -> None:
    """Template, patches, fields, systemName: each sees the result of the one before."""
    content = b'{"systemName": {{.Vars.v}}, "t": {{.Vars.v}}}\r\n'
    rendered = file_renderer.render_file(content, CONFIG, FULL)
    assert rendered.content == b'{"systemName": "area1", "t": "templated", "f": "field"}\r\n'
    assert rendered.transforms == ("template", "patches", "fields", "systemName")
    assert rendered.system_names == 1


def test_transforms_that_change_nothing_are_not_listed() -> None:
    """Unchanged content counts as unaltered, though a systemName was found."""
    content = b'{"systemName": "area1", "f": "field"}'
    rendered = file_renderer.render_file(content, CONFIG, replace(FULL, patches=()))
    assert (rendered.content, rendered.transforms, rendered.system_names) == (content, (), 1)


def test_files_of_other_names_are_not_normalized() -> None:
    """Fields and systemName apply to config.json, the signature to resource.json."""
    content = b'{"systemName": "x", "f": 1, "attributes": {"lastModificationSignature": "s"}}'
    recipe = replace(FULL, template=False, patches=())
    assert file_renderer.render_file(content, "a/view.json", recipe).content == content
    assert file_renderer.render_file(content, "a/my-config.json", recipe).content == content
    assert file_renderer.render_file(content, "a/resource.json", recipe).transforms == (
        "signature",
    )
    assert recipe.for_path("a/view.json").is_plain_copy


@pytest.mark.scenario("G29")
def test_every_config_file_is_normalized() -> None:
    """A config.json at each of forty depths gets the system name."""
    content = b'{"systemName": "old"}'
    for depth in range(40):
        path = "d/" * depth + "config.json"
        rendered = file_renderer.render_file(content, path, RenderRecipe(system_name="area1"))
        assert rendered.content == b'{"systemName": "area1"}'
        assert rendered.transforms == ("systemName",)


def test_warnings_name_the_file() -> None:
    """A field that was not changed is reported with its file."""
    rendered = file_renderer.render_file(b'{"f": []}', CONFIG, RenderRecipe(fields=FULL.fields))
    assert rendered.warnings == (f"{CONFIG}: .f is not a string, number or boolean; not changed",)


@pytest.mark.scenario("G32")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b'{\n  "files": ["config.json"],\n  "attributes": {\n    "lastModification": {},\n'
            b'    "lastModificationSignature": "ab",\n    "uuid": 1.0e5\n  }\n}',
            b'{\n  "files": ["config.json"],\n  "attributes": {\n    "lastModification": {},\n'
            b'    "uuid": 1.0e5\n  }\n}',
        ),
        (
            b'{"attributes":{"uuid":"u","lastModificationSignature":"ab"},"x":1}\r\n',
            b'{"attributes":{"uuid":"u"},"x":1}\r\n',
        ),
        (b'{"attributes": {"lastModificationSignature": "ab"}}', b'{"attributes": {}}'),
        (b'{"lastModificationSignature": "ab"}', b'{"lastModificationSignature": "ab"}'),
        (b'{"attributes": {}}', b'{"attributes": {}}'),
        (b'{"attributes": 1, "x": {"lastModificationSignature": 1}}', None),
    ],
)
def test_only_the_signature_is_removed(before: bytes, after: bytes | None) -> None:
    """attributes.lastModificationSignature is removed with its comma, and nothing else."""
    assert file_renderer.remove_signature(before) == (before if after is None else after)
    rendered = file_renderer.render_file(before, RESOURCE, RenderRecipe(signature_policy="drop"))
    assert rendered.content == (before if after is None else after)
    assert file_renderer.render_file(before, RESOURCE, RenderRecipe()).content == before


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (b'{"a":\n{{.Nope}}}', "TemplateError", f"{CONFIG}:2: unknown variable `.Nope`"),
        (b'{"a":\n 1,}', "ConfigSyntaxError", f"{CONFIG}:2:4: found `}}`, expected a member name"),
        (b"[]", "ConfigSyntaxError", f"{CONFIG}:1:1: .f cannot be set"),
    ],
)
def test_a_file_that_cannot_be_rendered_refuses_the_sync(
    content: bytes, reason: str, message: str
) -> None:
    """The error has its path, line and reason."""
    with pytest.raises(SyncRefused) as caught:
        file_renderer.render_file(content, CONFIG, FULL)
    assert caught.value.reason == reason
    assert caught.value.path == CONFIG
    assert caught.value.message.startswith(message)


def test_a_recipe_digest_covers_all_that_changes_the_result() -> None:
    """And nothing else."""
    variants = [
        FULL,
        replace(FULL, template=False),
        replace(FULL, patches=()),
        replace(FULL, patches=(FilePatch("", {".f": "other"}),)),
        replace(FULL, fields=()),
        replace(FULL, system_name=None),
        replace(FULL, system_name="x"),
        replace(FULL, system_name_scope="TopLevel"),
        replace(FULL, signature_policy="keep"),
        replace(FULL, variables=TemplateVariables(commit="c2", vars=FULL.variables.vars)),
        replace(FULL, variables=replace(FULL.variables, labels={"a": "b"})),
    ]
    assert len({recipe_digest(recipe) for recipe in variants}) == len(variants)
    assert recipe_digest(RenderRecipe()) == ""
    assert recipe_digest(RenderRecipe(variables=FULL.variables)) == ""
    plain = RenderRecipe(system_name="x")
    assert recipe_digest(replace(plain, variables=FULL.variables)) == recipe_digest(plain)
