"""The scope of a watch."""

from __future__ import annotations

import pytest

from windlass.kube.reflector import Scope
from windlass.objects.names import GVR

CONFIG_MAPS = GVR("", "v1", "configmaps")


@pytest.mark.parametrize(
    ("scope", "field_selector", "text"),
    [
        (Scope(CONFIG_MAPS), "", f"{CONFIG_MAPS}"),
        (Scope(CONFIG_MAPS, "n"), "", f"{CONFIG_MAPS} in n"),
        (Scope(CONFIG_MAPS, "n", "a=b"), "", f"{CONFIG_MAPS} in n with a=b"),
        (Scope(CONFIG_MAPS, "n", name="x"), "metadata.name=x", f"{CONFIG_MAPS} x in n"),
    ],
)
def test_a_scope_has_a_field_selector_and_a_text(
    scope: Scope, field_selector: str, text: str
) -> None:
    """For the API server and for people."""
    assert (scope.field_selector, str(scope)) == (field_selector, text)
