"""Reading YAML as kubectl does, and refusing what could surprise."""

from __future__ import annotations

import pytest

from windlass.objects import yaml_reader


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Off", False), ("y", True), ("N", False), ("~", None), ("", None),
        ("Null", None), ("yEs", "yEs"), ("0x1F", 31), ("0o17", 15), ("017", 15), ("0b11", 3),
        ("1_000", 1000), ("-5", -5), ("+1", 1), ("08", 8.0), ("1e3", 1000.0), (".5", 0.5),
        ("1.", 1.0), ("1:30", "1:30"), ("2020-01-01", "2020-01-01"), ("-", None),
        ("1.2.3", "1.2.3"), ("18446744073709551616", 2**64), ("+", "+"), ("--", "--"),
        ("0x", "0x"), ("=", "="), ("'no'", "no"), ('"1"', "1"), ("|\n  1\n", "1\n"),
    ],
)  # fmt: skip
def test_plain_scalars_are_typed_like_go(text: str, value: object) -> None:
    """Booleans, numbers and dates mean what they mean to kubectl."""
    if text == "-":
        assert yaml_reader.read(b"a:\n-") == {"a": [None]}
        return
    value_read = yaml_reader.read(f"a: {text}".encode())
    assert value_read == {"a": value}
    assert type(value_read["a"]) is type(value)


def test_keys_become_text() -> None:
    """Numbers and booleans as keys are what they are in JSON: text."""
    content = b"data:\n  8080: a\n  true: b\n  1.5: c\n"
    assert yaml_reader.read(content) == {"data": {"8080": "a", "true": "b", "1.5": "c"}}


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"a: &x 1\nb: *x\n", "anchors"),
        (b"a: *x\n", "aliases"),
        (b"a: !!python/object:os.system x\n", "tags"),
        (b"a: !x 1\n", "tags"),
        (b"a: !!map {}\n", "tags"),
        (b"<<: {a: 1}\n", "merge"),
        (b"a: 1\na: 2\n", "duplicate key"),
        (b"a: 1\n---\nb: 2\n", "one document"),
        (b"", "one document"),
        (b"? [a]\n: 1\n", "keys must be strings"),
        (b"~: 1\n", "keys must be strings"),
        (b"a: .inf\n", "finite"),
        (b"a: 1e999\n", "finite"),
        (b"a: .NaN\n", "finite"),
        (b"a: " + b"1" * 5000, "digits"),
        (b"a: [", "invalid YAML"),
        (b"\xff", "invalid YAML"),
        (b"a: \x00", "invalid YAML"),
        (b"[" * 300 + b"]" * 300, "deeper"),
    ],
)
def test_ambiguous_documents_are_refused(content: bytes, rule: str) -> None:
    """Everything but one plain document is a ValueError that names the rule."""
    with pytest.raises(ValueError, match=rule):
        yaml_reader.read(content)


def test_line_is_named() -> None:
    """The error has the line."""
    with pytest.raises(yaml_reader.NotReadable, match="line 3"):
        yaml_reader.read(b"a: 1\nb: 2\nc: &x 1\n")


def test_too_many_bytes_are_not_parsed() -> None:
    """The cap is checked before anything else."""
    with pytest.raises(yaml_reader.NotReadable, match="limit 10"):
        yaml_reader.read(b"a: " + b"x" * 100, max_bytes=10)


def test_deepest_allowed_nesting_is_read() -> None:
    """256 levels are fine."""
    value = yaml_reader.read(b"[" * 256 + b"]" * 256)
    for _ in range(255):
        (value,) = value
    assert value == []


def test_quoted_merge_key_is_text() -> None:
    """A quoted `<<` is an ordinary key."""
    assert yaml_reader.read(b'"<<": 1\n') == {"<<": 1}


def test_many_documents_with_aliases_and_merge_keys() -> None:
    """Aliases are expanded; an explicit key wins over a merged one."""
    text = b"a: &x {p: 1, q: 1}\nb: *x\nc:\n  <<: *x\n  q: 2\n---\n- &l [1]\n- *l\n"
    first, second = yaml_reader.read_all(text)
    assert first == {"a": {"p": 1, "q": 1}, "b": {"p": 1, "q": 1}, "c": {"p": 1, "q": 2}}
    assert second == [[1], [1]]


def test_aliases_share_nothing() -> None:
    """Changing one copy changes no other."""
    [document] = yaml_reader.read_all(b"a: &x {p: 1}\nb: *x\n")
    document["a"]["p"] = 2
    assert document["b"] == {"p": 1}


def test_aliases_that_would_fill_the_memory_are_refused() -> None:
    """Ten lines must not become a billion values."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    with pytest.raises(yaml_reader.NotReadable, match="aliases add more"):
        yaml_reader.read_all("\n".join(lines).encode())


def test_aliases_that_would_nest_without_end_are_refused() -> None:
    """Neither a value inside itself nor a chain of thousands is expanded."""
    with pytest.raises(yaml_reader.NotReadable, match="must not refer to a value that contains it"):
        yaml_reader.read_all(b"a: &a [*a]")
    chain = "\n".join(["- &x0 [1]", *(f"- &x{n} [*x{n - 1}]" for n in range(1, 2000))])
    with pytest.raises(yaml_reader.NotReadable, match="nesting is deeper"):
        yaml_reader.read_all(chain.encode())


def test_an_alias_needs_an_anchor_before_it() -> None:
    """The line is named."""
    with pytest.raises(
        yaml_reader.NotReadable, match=r"no anchor of this name before it \(line 2\)"
    ):
        yaml_reader.read_all(b"a: 1\nb: *x\n")


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (rb'{"a": "\ud83d\ude00"}', [{"a": "\U0001f600"}]),
        (b'---\n{"a": 1}\n---\n\n{"b": [1, 2.5]}\n', [{"a": 1}, {"b": [1, 2.5]}]),
        (b'{"a": 1}{"b": null}', [{"a": 1}, {"b": None}]),
        (b'{"a": 1}\n---\nb: yes\n', [{"a": 1}, {"b": True}]),
        (b"{a: b}", [{"a": "b"}]),
        (b'{"<<": {"a": 1}}', [{"<<": {"a": 1}}]),
    ],
)
def test_json_is_read_as_json(content: bytes, values: list[object]) -> None:
    """JSON documents mean what JSON defines, also where YAML readers would refuse them."""
    assert yaml_reader.read_all(content) == values


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b'{"a": {"b": 1, "b": 2}}', "duplicate key: 'b'"),
        (b'{"a": NaN}', "numbers must be finite"),
        (b'{"a": 1e999}', "numbers must be finite"),
        (b'{"a": ' + b"1" * 5000 + b"}", "too many digits"),
        (b"[" * 257 + b"]" * 257, "nesting is deeper than 256"),
        (b"[" * 100_000, "nesting is deeper than 256"),
        (b'{"a": "' + b"x" * 64 + b'"}', "limit 64"),
    ],
)
def test_ambiguous_json_is_refused(content: bytes, rule: str) -> None:
    """The rules for YAML hold for JSON too."""
    most = 64 if rule.startswith("limit") else 1 << 20
    with pytest.raises(yaml_reader.NotReadable, match=rule):
        yaml_reader.read_all(content, max_bytes=most)
