"""Allowing a name for good changes one line of the declaration, and no other."""

from pathlib import Path

import pytest

from deskyard.access.egress import normal
from deskyard.declaration.allow_list import declare, undeclare
from deskyard.errors import ConfigError

HEAD = """# Ours.
config:
  deskyard:network: 10.80.2.0/24 # the second
  deskyard:egress: locked # tight
"""
TAIL = """  deskyard:desktops:
    - name: inbox
      tier: free
encryptionsalt: v1:abc
"""
LISTED = """  # what we need
  deskyard:egress_allow:
    - "docs.example.org" # by hand
    # code
    - git.example.org:22
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.demo.yaml"


# The engine takes a key without a project's name for ours.
@pytest.mark.parametrize("prefix", ["deskyard:", ""], ids=["whole keys", "bare keys"])
@pytest.mark.parametrize(
    ("before", "entry", "after"),
    [
        ("", "a.example.org", "  deskyard:egress_allow:\n    - a.example.org\n"),
        ("", "*.example.org", '  deskyard:egress_allow:\n    - "*.example.org"\n'),
        (LISTED, "a.example.org", LISTED + "    - a.example.org\n"),
        ("  deskyard:egress_allow: []\n", "a.b.org", "  deskyard:egress_allow: [a.b.org]\n"),
        ("  deskyard:egress_allow: [x.org, 'y.org'] # both\n", "a.b.org", None),
    ],
    ids=["no list", "wildcard", "list", "empty", "in brackets"],
)
def test_one_entry_more_and_back_again(path: Path, before: str, entry: str, after: str | None, prefix: str) -> None:
    def text(listed: str) -> str:
        return (HEAD + listed + TAIL).replace("deskyard:", prefix)

    path.write_text(text(before))
    assert declare(path, entry)
    written = text(after or "  deskyard:egress_allow: [x.org, 'y.org', a.b.org] # both\n")
    if not before:
        written = written.replace(f"  {prefix}egress_allow:", "  deskyard:egress_allow:")
    assert path.read_text() == written
    assert not declare(path, entry)
    assert path.read_text() == written
    assert undeclare(path, entry)
    assert path.read_text() == text(before)
    assert not undeclare(path, entry)


def test_the_last_entry_of_bare_keys_goes_with_its_key(path: Path) -> None:
    text = (HEAD + TAIL).replace("deskyard:", "")
    path.write_text(text.replace("  desktops:", "  egress_allow:\n    # one\n    - a.example.org\n  desktops:"))
    assert undeclare(path, "a.example.org")
    assert path.read_text() == text.replace("  desktops:", "    # one\n  desktops:")


def test_comments_of_others_stay_when_an_entry_goes(path: Path) -> None:
    path.write_text(HEAD + LISTED + TAIL)
    assert undeclare(path, "docs.example.org")
    assert path.read_text() == HEAD + LISTED.replace('    - "docs.example.org" # by hand\n', "") + TAIL


def test_file_without_a_line_end_is_edited_too(path: Path) -> None:
    path.write_text(
        "config:\n  deskyard:network: 10.80.2.0/24\n  deskyard:desktops: [{name: a}]\n  deskyard:egress: locked"
    )
    assert declare(path, "a.example.org")
    assert path.read_text().endswith("egress: locked\n  deskyard:egress_allow:\n    - a.example.org\n")


def test_what_would_be_no_declaration_is_not_written(path: Path) -> None:
    text = (HEAD + TAIL).replace("locked", "open")
    path.write_text(text)
    with pytest.raises(ConfigError, match="egress: locked"):
        declare(path, "a.example.org")
    assert path.read_text() == text
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_wrong_name_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(ConfigError) as caught:
        normal("*.com")
    assert (caught.value.field, caught.value.value) == ("name", "*.com")
    assert "two labels" in caught.value.remedy
    assert normal("Docs.Example.ORG") == "docs.example.org"
