"""Which recipe makes the content of each planned file.

Files of one mapping share few recipes: each is made once and known by its digest. A file
that nothing applies to has none and is copied as it is. Values that templates give are
resolved here, so a recipe changes with a commit only if its result may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.gateways.decide import normalise
from windlass.gateways.decide.mapping import Mapping
from windlass.gateways.decide.normalise import Field, FieldValue, Scope
from windlass.gateways.decide.patching import Patch, Patches
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.rendering import Recipe, SignaturePolicy, recipe_digest
from windlass.gateways.decide.routing import Routing
from windlass.gateways.decide.template import TemplateError
from windlass.gateways.decide.variables import Variables

Identified: TypeAlias = tuple[Recipe | None, str]


@dataclass(frozen=True, slots=True)
class Recipes:
    """What applies to the files of one gateway at one commit."""

    variables: Variables = Variables()  # noqa: RUF009 - frozen
    fields: tuple[FieldValue, ...] = ()
    system_name: str | None = None
    system_name_scope: Scope = "AnyDepth"
    signature_policy: SignaturePolicy = "drop"

    @classmethod
    def of_routing(cls, routing: Routing, variables: Variables, system_name: str | None) -> Recipes:
        rules = (Field(rule.json_path, rule.value_template) for rule in routing.normalize.fields)
        try:
            fields = normalise.resolved(rules, variables)
        except TemplateError as error:
            raise Refused("TemplateError", "", f"normalize.fields: {error}") from error
        except ValueError as error:
            raise Refused("ProfilesInvalid", "", f"normalize.fields: {error}") from error
        scope = routing.normalize.system_name_scope
        return cls(variables, fields, system_name, scope, routing.signature_policy)

    def of(self, mapping: Mapping) -> MappingRecipes:
        return MappingRecipes(self, mapping)

    def made(self, mapping: Mapping, patches: tuple[Patch, ...], *, config: bool) -> Identified:
        """The recipe of a file of `mapping`, with its digest."""
        recipe = Recipe(
            template=mapping.template,
            patches=patches,
            fields=self.fields if config else (),
            system_name=self.system_name if config else None,
            system_name_scope=self.system_name_scope,
            variables=self.variables if mapping.template else Variables(),
        )
        return (None, "") if recipe.copies else (recipe, recipe_digest(recipe))


class MappingRecipes:
    """The recipes of one mapping's files."""

    def __init__(self, recipes: Recipes, mapping: Mapping) -> None:
        self._recipes = recipes
        self._mapping = mapping
        self._specs = tuple(Patch(spec.file, spec.set) for spec in mapping.patches)
        self._patches = _checked(mapping, self._specs)
        self._made: dict[tuple[bool, tuple[int, ...]], Identified] = {}
        self._matched: set[int] = set()

    def recipe(self, path: str, name: str) -> Identified:
        """The recipe of the planned `path`; `name` is its place below the destination."""
        patches = self._patches.of(name) if self._mapping.patches else ()
        key = normalise.is_config(path), tuple(map(id, patches))
        known = self._made.get(key)
        if known is None:
            known = self._recipes.made(self._mapping, patches, config=key[0])
            self._made[key] = known
            self._matched.update(key[1])
        return known

    def unmatched(self) -> Iterator[str]:
        """A warning for every patch that met no planned file."""
        for patch in self._specs:
            if id(patch) not in self._matched:
                yield f"{self._mapping.origin}: the patch of {patch.file!r} matches no planned file"


def dropping(recipe: Recipe | None) -> tuple[Recipe, str]:
    """The recipe of a resource.json whose signature became a lie (NRM-7)."""
    made = replace(recipe if recipe is not None else Recipe(), signature_policy="drop")
    return made, recipe_digest(made)


def _checked(mapping: Mapping, specs: tuple[Patch, ...]) -> Patches:
    try:
        return Patches(specs)
    except ValueError as error:
        raise Refused("ProfilesInvalid", "", f"{mapping.origin}.patches: {error}") from error
