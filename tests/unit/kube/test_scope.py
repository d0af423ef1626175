"""What a watch is about."""

from __future__ import annotations

import pytest

from windlass.kube.reflector import Scope
from windlass.objects.names import GVR

CONFIG_MAPS = GVR("", "v1", "configmaps")


@pytest.mark.parametrize(
    ("scope", "field_selector", "words"),
    [
        (Scope(CONFIG_MAPS), "", f"{CONFIG_MAPS}"),
        (Scope(CONFIG_MAPS, "n"), "", f"{CONFIG_MAPS} in n"),
        (Scope(CONFIG_MAPS, "n", "a=b"), "", f"{CONFIG_MAPS} in n with a=b"),
        (Scope(CONFIG_MAPS, "n", name="x"), "metadata.name=x", f"{CONFIG_MAPS} x in n"),
    ],
)
def test_a_scope_says_what_it_is_about(scope: Scope, field_selector: str, words: str) -> None:
    """To the API server and to people."""
    assert (scope.field_selector, str(scope)) == (field_selector, words)
