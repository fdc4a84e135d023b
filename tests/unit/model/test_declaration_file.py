"""The files that people write: what of them cannot be read is an error that names the file."""

from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.model.base import load_yaml, parse_yaml


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("denied: [10.0.0.0/8]\nother: 1\ndenied: [10.1.0.0/16]\n", 3),
        ("a:\n- b: 1\n- {c: 1, d: 2,\n   'c': 2}\n", 4),
        ("a: &a {x: 1}\nb: {<<: *a, y: 1,\n    y: 2}\n", 3),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="stands twice") as refused:
        load_yaml(path)
    assert f"line {line}," in refused.value.reason
    assert refused.value.value == str(path)


def test_the_same_key_in_other_mappings_and_what_is_merged_in_are_taken() -> None:
    text = "a: &a {x: 1}\nb: {q: &b {<<: *a, x: 2}}\nc: {<<: [*b, *a], x: 3}\nd: [*a, *a]\n"
    first = {"x": 1}
    assert parse_yaml(text) == {"a": first, "b": {"q": {"x": 2}}, "c": {"x": 3}, "d": [first, first]}
    assert parse_yaml("") is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    latin = tmp_path / "site.yaml"
    latin.write_bytes("name: Büro\n".encode("latin-1"))
    for path in (latin, tmp_path):
        with pytest.raises(ConfigError, match="cannot be read") as refused:
            load_yaml(path)
        assert refused.value.value == str(path)
