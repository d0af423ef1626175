"""A file made by a recipe."""

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


def test_the_order_of_steps() -> None:
    """Template, patches, fields, systemName: each sees what the one before has written."""
    content = b'{"systemName": {{.Vars.v}}, "t": {{.Vars.v}}}\r\n'
    made = file_renderer.render_file(content, CONFIG, FULL)
    assert made.content == b'{"systemName": "area1", "t": "templated", "f": "field"}\r\n'
    assert made.transforms == ("template", "patches", "fields", "systemName")
    assert made.system_names == 1


def test_steps_that_change_nothing_are_not_named() -> None:
    """A content that comes out as it went in counts as unaltered, though its name was found."""
    content = b'{"systemName": "area1", "f": "field"}'
    made = file_renderer.render_file(content, CONFIG, replace(FULL, patches=()))
    assert (made.content, made.transforms, made.system_names) == (content, (), 1)


def test_files_of_other_names_are_not_normalised() -> None:
    """Fields and systemName are for config.json, the signature for resource.json."""
    content = b'{"systemName": "x", "f": 1, "attributes": {"lastModificationSignature": "s"}}'
    recipe = replace(FULL, template=False, patches=())
    assert file_renderer.render_file(content, "a/view.json", recipe).content == content
    assert file_renderer.render_file(content, "a/my-config.json", recipe).content == content
    assert file_renderer.render_file(content, "a/resource.json", recipe).transforms == (
        "signature",
    )
    assert recipe.for_path("a/view.json").is_plain_copy


@pytest.mark.scenario("G29")
def test_every_config_file_is_normalised() -> None:
    """Forty files called config.json at forty depths all get the name."""
    content = b'{"systemName": "old"}'
    for depth in range(40):
        path = "d/" * depth + "config.json"
        made = file_renderer.render_file(content, path, RenderRecipe(system_name="area1"))
        assert made.content == b'{"systemName": "area1"}'
        assert made.transforms == ("systemName",)


def test_warnings_name_the_file() -> None:
    """What a field left alone is told with its file."""
    made = file_renderer.render_file(b'{"f": []}', CONFIG, RenderRecipe(fields=FULL.fields))
    assert made.warnings == (f"{CONFIG}: .f is not a string, number or boolean; not changed",)


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
def test_only_the_signature_goes(before: bytes, after: bytes | None) -> None:
    """The member attributes.lastModificationSignature goes with its comma, nothing else does."""
    assert file_renderer.remove_signature(before) == (before if after is None else after)
    made = file_renderer.render_file(before, RESOURCE, RenderRecipe(signature_policy="drop"))
    assert made.content == (before if after is None else after)
    assert file_renderer.render_file(before, RESOURCE, RenderRecipe()).content == before


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (b'{"a":\n{{.Nope}}}', "TemplateError", f"{CONFIG}:2: unknown variable `.Nope`"),
        (b'{"a":\n 1,}', "ConfigSyntaxError", f"{CONFIG}:2:4: found `}}`, expected a member name"),
        (b"[]", "ConfigSyntaxError", f"{CONFIG}:1:1: .f cannot be set"),
    ],
)
def test_refusals(content: bytes, reason: str, message: str) -> None:
    """A file that cannot be made refuses the sync with its path, line and reason."""
    with pytest.raises(SyncRefused) as caught:
        file_renderer.render_file(content, CONFIG, FULL)
    assert caught.value.reason == reason
    assert caught.value.path == CONFIG
    assert caught.value.message.startswith(message)


def test_the_digest_of_a_recipe() -> None:
    """It changes with everything that can change the result, and with nothing else."""
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
