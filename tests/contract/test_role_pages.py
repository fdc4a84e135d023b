"""Every role has a page that follows from its argument_specs."""

from pathlib import Path

import pytest
import yaml

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.lab import role_page

SPECS = {
    "argument_specs": {
        "main": {
            "short_description": "A screen",
            "description": ["First.", "Second\nline."],
            "options": {
                "screen_kind": {"type": "str", "choices": ["a", "b|c"], "required": True, "description": "Which."},
                "screen_port": {"type": "int", "default": 0, "description": "Where."},
                "screen_name": {"type": "str", "default": "", "description": "Its name."},
            },
        },
        "wake": {
            "short_description": "A screen that is on",
            "options": {"screen_wake_seconds": {"type": "int", "required": True, "description": "How long."}},
        },
    }
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "ansible/roles/screen"
    (folder / "meta").mkdir(parents=True)
    (folder / role_page.SPECS).write_text(yaml.safe_dump(SPECS))
    (tmp_path / "tests/infra/screen").mkdir(parents=True)
    return tmp_path


def test_pages_of_all_roles_are_up_to_date() -> None:
    role_page.require(tree())
    assert len(role_page.pages(tree())) > 20


def test_page_says_what_may_be_set_and_what_has_to(small: Path) -> None:
    (text,) = role_page.pages(small).values()
    assert text.startswith("# screen\n\nA screen.\n\nFirst.\n\nSecond line.\n")
    assert "| `screen_kind` | required | Which. One of: `a`, `b\\|c`. |" in text
    assert "| `screen_port` | `0` | Where. |" in text
    assert '| `screen_name` | `""` | Its name. |' in text
    assert "- `tests/infra/screen/`" in text and "tests/molecule" not in text


def test_page_says_what_other_roles_may_include(small: Path) -> None:
    (text,) = role_page.pages(small).values()
    part = "## Tasks for other roles: `wake`\n\nA screen that is on.\n\n| variable | default | what it is |\n| --- |"
    assert part in text and "| `screen_wake_seconds` | required | How long. |\n\n## Tests" in text


def test_example_is_a_play_with_what_is_required(small: Path) -> None:
    (text,) = role_page.pages(small).values()
    (play,) = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    assert play["roles"] == [{"role": "screen", "vars": {"screen_kind": "a"}}]


def test_page_that_differs_is_named_and_written(small: Path) -> None:
    with pytest.raises(ConfigError, match=r"ansible/roles/screen/README\.md"):
        role_page.require(small)
    assert [path.parent.name for path in role_page.write(small)] == ["screen"]
    role_page.require(small)
    assert role_page.write(small) == []
