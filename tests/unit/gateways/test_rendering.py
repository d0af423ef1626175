"""A file made by a recipe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.gateways.decide import rendering
from windlass.gateways.decide.normalise import FieldValue
from windlass.gateways.decide.patching import Patch
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.rendering import Recipe, recipe_digest
from windlass.gateways.decide.variables import Variables

CONFIG = "config/resources/core/ignition/system-properties/config.json"
RESOURCE = "config/resources/core/ignition/system-properties/resource.json"
FULL = Recipe(
    template=True,
    patches=(Patch("", {".systemName": "patched", ".f": "patched"}),),
    fields=(FieldValue(("systemName",), "field"), FieldValue(("f",), "field")),
    system_name="area1",
    variables=Variables(commit="c1", vars={"v": '"templated"'}),
    signature_policy="drop",
)


def test_the_order_of_steps() -> None:
    """Template, patches, fields, systemName: each sees what the one before has written."""
    content = b'{"systemName": {{.Vars.v}}, "t": {{.Vars.v}}}\r\n'
    made = rendering.render(content, CONFIG, FULL)
    assert made.content == b'{"systemName": "area1", "t": "templated", "f": "field"}\r\n'
    assert made.transforms == ("template", "patches", "fields", "systemName")
    assert made.system_names == 1


def test_steps_that_change_nothing_are_not_named() -> None:
    """A content that comes out as it went in counts as unaltered, though its name was found."""
    content = b'{"systemName": "area1", "f": "field"}'
    made = rendering.render(content, CONFIG, replace(FULL, patches=()))
    assert (made.content, made.transforms, made.system_names) == (content, (), 1)


def test_files_of_other_names_are_not_normalised() -> None:
    """Fields and systemName are for config.json, the signature for resource.json."""
    content = b'{"systemName": "x", "f": 1, "attributes": {"lastModificationSignature": "s"}}'
    recipe = replace(FULL, template=False, patches=())
    assert rendering.render(content, "a/view.json", recipe).content == content
    assert rendering.render(content, "a/my-config.json", recipe).content == content
    assert rendering.render(content, "a/resource.json", recipe).transforms == ("signature",)
    assert recipe.for_path("a/view.json").copies


@pytest.mark.scenario("G29")
def test_every_config_file_is_normalised() -> None:
    """Forty files called config.json at forty depths all get the name."""
    content = b'{"systemName": "old"}'
    for depth in range(40):
        path = "d/" * depth + "config.json"
        made = rendering.render(content, path, Recipe(system_name="area1"))
        assert made.content == b'{"systemName": "area1"}'
        assert made.transforms == ("systemName",)


def test_warnings_name_the_file() -> None:
    """What a field left alone is told with its file."""
    made = rendering.render(b'{"f": []}', CONFIG, Recipe(fields=FULL.fields))
    assert made.warnings == (f"{CONFIG}: .f is no string, number or boolean and was left alone",)


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
    assert rendering.without_signature(before) == (before if after is None else after)
    made = rendering.render(before, RESOURCE, Recipe(signature_policy="drop"))
    assert made.content == (before if after is None else after)
    assert rendering.render(before, RESOURCE, Recipe()).content == before


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (b'{"a":\n{{.Nope}}}', "TemplateError", f"{CONFIG}:2: there is no `.Nope`"),
        (b'{"a":\n 1,}', "ConfigSyntaxError", f"{CONFIG}:2:4: found `}}`, expected a member name"),
        (b"[]", "ConfigSyntaxError", f"{CONFIG}:1:1: .f cannot be set"),
    ],
)
def test_refusals(content: bytes, reason: str, message: str) -> None:
    """A file that cannot be made refuses the sync with its path, line and reason."""
    with pytest.raises(Refused) as caught:
        rendering.render(content, CONFIG, FULL)
    assert caught.value.reason == reason
    assert caught.value.path == CONFIG
    assert caught.value.message.startswith(message)


def test_the_digest_of_a_recipe() -> None:
    """It changes with everything that can change the result, and with nothing else."""
    variants = [
        FULL,
        replace(FULL, template=False),
        replace(FULL, patches=()),
        replace(FULL, patches=(Patch("", {".f": "other"}),)),
        replace(FULL, fields=()),
        replace(FULL, system_name=None),
        replace(FULL, system_name="x"),
        replace(FULL, system_name_scope="TopLevel"),
        replace(FULL, signature_policy="keep"),
        replace(FULL, variables=Variables(commit="c2", vars=FULL.variables.vars)),
        replace(FULL, variables=replace(FULL.variables, labels={"a": "b"})),
    ]
    assert len({recipe_digest(recipe) for recipe in variants}) == len(variants)
    assert recipe_digest(Recipe()) == ""
    assert recipe_digest(Recipe(variables=FULL.variables)) == ""
    plain = Recipe(system_name="x")
    assert recipe_digest(replace(plain, variables=FULL.variables)) == recipe_digest(plain)
