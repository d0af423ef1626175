"""Resolving an alias twice is resolving it once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.api.kinds import environment
from windlass.api.kinds.environment import EnvironmentSpec, ProjectRef
from windlass.api.kinds.project_sources import EnvironmentSource, SingleCommit

NAMES = st.sampled_from(["a", "b", "c", "d", "primary"])
COMMITS = st.sampled_from(["", "HEAD", "a" * 40])
ENVIRONMENT_SPECS = st.lists(
    st.builds(EnvironmentSource, name=NAMES, commit_sha=COMMITS),
    unique_by=lambda source: source.name,
    max_size=5,
)
SPECS = st.one_of(
    st.builds(
        EnvironmentSpec,
        project_ref=st.just(ProjectRef(name="p")),
        type=st.just("t"),
        sources=ENVIRONMENT_SPECS.map(tuple),
    ),
    st.builds(
        EnvironmentSpec,
        project_ref=st.just(ProjectRef(name="p")),
        type=st.just("t"),
        source=st.builds(SingleCommit, commit_sha=COMMITS),
    ),
)


@given(SPECS)
def test_resolving_is_idempotent(spec: EnvironmentSpec) -> None:
    """A resolved spec is its own resolution and has one shape."""
    once = environment.canonical_spec(spec)
    assert environment.canonical_spec(once) == once
    assert once.source is None
    assert once.sources is not None
