"""Renders the content of one file: copy, template, patches, fields, systemName, signature.

That order is fixed (NRM-6). The result depends on the content and the recipe alone, so a file
whose blob and recipe digest are those of the last sync need not be rendered again. A step that
changes no byte is not among the transforms, and there are none if the result equals the source:
`transforms` shows whether a payload was changed.

Files of one mapping share few recipes: each is built once and identified by its digest. A file
without any step has no recipe and is copied. Templates of values are rendered while recipes are
built, so a recipe changes with a commit only if its result may.

The signature in a `resource.json` covers its sibling payloads. Once one of them was changed it is
invalid, and only the gateway can compute a new one; a recipe with the policy `drop` removes it, and
the gateway adds its own (NRM-7). The layout decides for which files.

Pure.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, TypeAlias

from windlass.gateways.render import json_edit, patching, template
from windlass.gateways.render.json_edit import RemoveValue
from windlass.gateways.render.json_tokens import InvalidJson
from windlass.gateways.render.patching import (
    FieldRule,
    FieldValue,
    FilePatch,
    MappingPatches,
    NormalizeResult,
    SystemNameScope,
)
from windlass.gateways.render.template import (
    MAP_NAMES,
    VARIABLE_NAMES,
    TemplateError,
    TemplateVariables,
)
from windlass.gateways.tree.mapping import PathMapping
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import Routing

RESOURCE_FILE = "resource.json"
RENDER_VERSION = 1
"""Incremented when equal inputs may give other bytes than before, so files are rendered again."""

SignaturePolicy: TypeAlias = Literal["keep", "drop"]

_SIGNATURE = "lastModificationSignature"
_SIGNATURE_PATH = ("attributes", _SIGNATURE)
_DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class RenderRecipe:
    """How the content of a file is rendered; the default is a plain copy."""

    # The content is a template.
    template: bool = False
    # JSON patches in order.
    patches: tuple[FilePatch, ...] = ()
    # JSON fields with rendered values.
    fields: tuple[FieldValue, ...] = ()
    # Rendered value for systemName members; None leaves them.
    system_name: str | None = None
    # Which systemName members are set.
    system_name_scope: SystemNameScope = "AnyDepth"
    # For the template of the content only; other values are rendered already.
    variables: TemplateVariables = TemplateVariables()  # noqa: RUF009 - frozen
    # Whether the signature of a resource.json is removed.
    signature_policy: SignaturePolicy = "keep"

    @property
    def is_plain_copy(self) -> bool:
        """Whether the recipe has no step."""
        normalizes = self.fields or self.system_name is not None
        return not (self.template or self.patches or normalizes or self.signature_policy == "drop")

    def for_path(self, path: str) -> RenderRecipe:
        """The recipe for `path`, without steps that do not apply to a file of that name."""
        config = patching.is_config_file(path)
        return RenderRecipe(
            template=self.template,
            patches=self.patches,
            fields=self.fields if config else (),
            system_name=self.system_name if config else None,
            system_name_scope=self.system_name_scope,
            variables=self.variables,
            signature_policy=self.signature_policy if is_resource_file(path) else "keep",
        )


@dataclass(frozen=True, slots=True)
class RenderResult:
    """A rendered content, the steps that changed it, and its number of systemName members."""

    content: bytes
    transforms: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    system_names: int = 0


def is_resource_file(path: str) -> bool:
    """Whether the file at `path` describes the payloads beside it."""
    return posixpath.basename(path) == RESOURCE_FILE


def render_file(content: bytes, path: str, recipe: RenderRecipe) -> RenderResult:
    """`content` rendered for `path`; raises `SyncRefused` with file and line if that fails."""
    file_render = _FileRender(content, path, recipe.for_path(path))
    try:
        for name, step in file_render.steps():
            file_render.record_step(name, step())
    except TemplateError as cause:
        message = f"{path}:{cause.line}: {cause.message}"
        raise SyncRefused("TemplateError", path, message) from cause
    except InvalidJson as cause:
        message = f"{path}:{cause.line}:{cause.column}: {cause.message}"
        raise SyncRefused("ConfigSyntaxError", path, message) from cause
    is_changed = file_render.content != content
    transforms = tuple(file_render.transforms) if is_changed else ()
    return RenderResult(
        file_render.content, transforms, file_render.warnings, file_render.system_names
    )


def recipe_digest(recipe: RenderRecipe) -> str:
    """The digest that identifies a recipe in a manifest; empty for a plain copy."""
    if recipe.is_plain_copy:
        return ""
    parts = [
        RENDER_VERSION,
        _variable_values(recipe.variables) if recipe.template else None,
        [[patch.file, sorted(patch.set.items())] for patch in recipe.patches],
        [[field.path, field.text] for field in recipe.fields],
        [recipe.system_name, recipe.system_name_scope] if recipe.system_name is not None else None,
        recipe.signature_policy,
    ]
    text = json.dumps(parts, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()[:_DIGEST_LENGTH]


def remove_signature(resource_json: bytes) -> bytes:
    """`resource_json` without the member attributes.lastModificationSignature."""
    if not json_edit.find_members(resource_json, _SIGNATURE):
        return resource_json
    return json_edit.apply_edits(resource_json, [RemoveValue(_SIGNATURE_PATH)])


def _variable_values(variables: TemplateVariables) -> list[object]:
    values: list[object] = [getattr(variables, attribute) for attribute in VARIABLE_NAMES.values()]
    return values + [
        sorted(getattr(variables, attribute).items()) for attribute in MAP_NAMES.values()
    ]


class _FileRender:
    """The rendering of one file: content and results after the steps run so far."""

    def __init__(self, content: bytes, path: str, recipe: RenderRecipe) -> None:
        self.content = content
        # Names of the steps that changed the content.
        self.transforms: list[str] = []
        self.warnings: tuple[str, ...] = ()
        # Number of systemName members, changed or not.
        self.system_names = 0
        self._path = path
        self._recipe = recipe

    def steps(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """The steps of the recipe in their order."""
        recipe = self._recipe
        if recipe.template:
            yield "template", lambda: template.render_bytes(self.content, recipe.variables)
        if recipe.patches:
            yield "patches", lambda: patching.apply_patches(self.content, recipe.patches)
        if recipe.fields:
            yield "fields", self._fields
        if recipe.system_name is not None:
            yield "systemName", self._system_name
        if recipe.signature_policy == "drop":
            yield "signature", lambda: remove_signature(self.content)

    def record_step(self, name: str, content: bytes) -> None:
        if content != self.content:
            self.transforms.append(name)
            self.content = content

    def _fields(self) -> bytes:
        result = patching.set_fields(self.content, self._recipe.fields)
        self.warnings = tuple(f"{self._path}: {warning}" for warning in result.warnings)
        return result.content

    def _system_name(self) -> bytes:
        name, scope = self._recipe.system_name or "", self._recipe.system_name_scope
        result: NormalizeResult = patching.set_system_name(self.content, name, scope)
        self.system_names = result.replaced
        return result.content


RecipeWithDigest: TypeAlias = tuple[RenderRecipe | None, str]


@dataclass(frozen=True, slots=True)
class GatewayRecipes:
    """The render settings for all files of one gateway at one commit."""

    variables: TemplateVariables = TemplateVariables()  # noqa: RUF009 - frozen
    fields: tuple[FieldValue, ...] = ()
    system_name: str | None = None
    system_name_scope: SystemNameScope = "AnyDepth"
    signature_policy: SignaturePolicy = "drop"

    @classmethod
    def from_routing(
        cls, routing: Routing, variables: TemplateVariables, system_name: str | None
    ) -> GatewayRecipes:
        """The settings by `spec.normalize`; raises `SyncRefused` for invalid fields."""
        rules = (
            FieldRule(rule.json_path, rule.value_template) for rule in routing.normalize.fields
        )
        try:
            fields = patching.resolve_fields(rules, variables)
        except TemplateError as error:
            raise SyncRefused("TemplateError", "", f"normalize.fields: {error}") from error
        except ValueError as error:
            raise SyncRefused("ProfilesInvalid", "", f"normalize.fields: {error}") from error
        scope = routing.normalize.system_name_scope
        return cls(variables, fields, system_name, scope, routing.signature_policy)

    def for_mapping(self, mapping: PathMapping) -> MappingRecipes:
        return MappingRecipes(self, mapping)

    def build_recipe(
        self, mapping: PathMapping, patches: tuple[FilePatch, ...], *, config: bool
    ) -> RecipeWithDigest:
        """The recipe of a file of `mapping`, with its digest."""
        recipe = RenderRecipe(
            template=mapping.template,
            patches=patches,
            fields=self.fields if config else (),
            system_name=self.system_name if config else None,
            system_name_scope=self.system_name_scope,
            variables=self.variables if mapping.template else TemplateVariables(),
        )
        return (None, "") if recipe.is_plain_copy else (recipe, recipe_digest(recipe))


class MappingRecipes:
    """The recipes of the files of one mapping."""

    def __init__(self, recipes: GatewayRecipes, mapping: PathMapping) -> None:
        self._recipes = recipes
        self._mapping = mapping
        self._specs = tuple(FilePatch(spec.file, spec.set) for spec in mapping.patches)
        self._patches = _compile_patches(mapping, self._specs)
        # By "is a config.json" and the ids of the patches that apply.
        self._recipes_by_key: dict[tuple[bool, tuple[int, ...]], RecipeWithDigest] = {}
        # Ids of the patches that matched a planned file.
        self._matched_patches: set[int] = set()

    def recipe(self, path: str, name: str) -> RecipeWithDigest:
        """The recipe of the planned `path`; `name` is relative to the mapping's destination."""
        patches = self._patches.for_file(name) if self._mapping.patches else ()
        key = patching.is_config_file(path), tuple(map(id, patches))
        recipe = self._recipes_by_key.get(key)
        if recipe is None:
            recipe = self._recipes.build_recipe(self._mapping, patches, config=key[0])
            self._recipes_by_key[key] = recipe
            self._matched_patches.update(key[1])
        return recipe

    def unmatched_warnings(self) -> Iterator[str]:
        """A warning for every patch that matches no planned file."""
        for patch in self._specs:
            if id(patch) not in self._matched_patches:
                yield f"{self._mapping.origin}: patch {patch.file!r} matches no planned file"


def drop_signature(recipe: RenderRecipe | None) -> tuple[RenderRecipe, str]:
    """The recipe of a resource.json whose signature is invalid (NRM-7), with its digest."""
    dropping = replace(recipe if recipe is not None else RenderRecipe(), signature_policy="drop")
    return dropping, recipe_digest(dropping)


def _compile_patches(mapping: PathMapping, specs: tuple[FilePatch, ...]) -> MappingPatches:
    try:
        return MappingPatches(specs)
    except ValueError as error:
        raise SyncRefused("ProfilesInvalid", "", f"{mapping.origin}.patches: {error}") from error
