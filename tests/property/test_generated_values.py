"""Generated values, for any chart that generates some."""

from __future__ import annotations

import base64
import random
import string

from hypothesis import given
from hypothesis import strategies as st

from windlass.environments.render import generated_values, manifests
from windlass.objects import yaml_emitter
from windlass.objects.names import Object

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_PARTS = st.lists(st.one_of(_TEXTS, st.integers(0, 3)), min_size=1, max_size=4)
_NAMES = st.sampled_from("abcd")
_SECRETS = st.dictionaries(_NAMES, st.dictionaries(_NAMES, _PARTS, max_size=3), max_size=3)
_MAPS = st.dictionaries(_NAMES, _PARTS, max_size=3)


def _render(secrets: dict[str, dict[str, list[str | int]]], plain: Object, seed: int) -> bytes:
    """One render: a number in a text is a value that is generated once per render."""
    source = random.Random(seed)
    letters = string.ascii_letters + string.digits
    drawn = ["".join(source.choices(letters, k=12)) for _ in range(4)]

    def text(parts: list[str | int]) -> str:
        return "".join(drawn[part] if isinstance(part, int) else part for part in parts)

    objects: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "data": {
                key: base64.b64encode(text(parts).encode()).decode() for key, parts in keys.items()
            },
        }
        for name, keys in secrets.items()
    ]
    data = {key: text(parts) for key, parts in plain.items()}
    rest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}
    return b"".join(
        b"---\n# Source: shop/templates/all.yaml\n" + yaml_emitter.emit(obj)
        for obj in (*objects, rest)
    )


def _secrets_in(output: bytes) -> list[Object]:
    changed = (written.object for written in manifests.parse_chart_output(output))
    return sorted((obj for obj in changed if obj["kind"] == "Secret"), key=str)


def _maps_in(output: bytes) -> list[Object]:
    changed = (written.object for written in manifests.parse_chart_output(output))
    return [obj for obj in changed if obj["kind"] == "ConfigMap"]


@given(_SECRETS, _MAPS)
def test_secrets_never_change_with_a_render(
    secrets: dict[str, dict[str, list[str | int]]], plain: Object
) -> None:
    """A chart rendered again has its first Secrets; other changes are reported."""
    first = generated_values.stabilize(_render(secrets, plain, 1), _render(secrets, plain, 2), b"")
    assert _secrets_in(first.output) == _secrets_in(_render(secrets, plain, 1))
    again = generated_values.stabilize(
        _render(secrets, plain, 3), _render(secrets, plain, 4), first.output
    )
    assert _secrets_in(again.output) == _secrets_in(first.output)
    assert again.notes == first.notes
    if not again.notes:
        assert _maps_in(again.output) == _maps_in(first.output)
