"""What customises desktops is a folder or a pinned repository; a URL with credentials is refused and not shown."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.customise import Customise
from deskyard.model.workspace import Workspace

CANARY = "canary-55e1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def declared(customise: Any) -> Workspace:
    values = {"name": "lab", "network": "10.80.1.0/24", "desktops": [{"name": "dev1", "customise": customise}]}
    return Workspace.check(values, "Pulumi.lab.yaml")


@pytest.mark.parametrize(
    "values",
    [
        {"from": "dotfiles"},
        {"from": "../shared/dot files"},
        {"from": "/srv/dotfiles", "max_mib": 64, "script_seconds": 7200},
        {"from": "https://git.example.org/me/desk.git", "ref": "v1.2"},
        {"from": "https://git.example.org:8443/me/desk", "ref": COMMIT},
        {"from": "ssh://git@git.example.org/me/desk.git", "ref": "team/v3"},
        {"from": "ssh://git@[fd00::1]:2222/me/desk.git", "ref": "v3"},
        {"from": "file:///srv/git/desk.git", "ref": "v3"},
    ],
    ids=lambda values: values["from"],
)
def test_folders_and_pinned_repositories_are_sources(values: dict[str, Any]) -> None:
    customise = declared(values).desktops[0].customise
    assert customise is not None and customise.is_git == ("ref" in values)
    assert customise.is_commit == (values.get("ref") == COMMIT)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"from": f"https://me:{CANARY}@git.example.org/a", "ref": "v1"}, "holds credentials"),
        ({"from": f"https://{CANARY}@git.example.org/a", "ref": "v1"}, "holds credentials"),
        ({"from": f"ssh://git:{CANARY}@git.example.org/a", "ref": "v1"}, "holds credentials"),
        ({"from": f"file://{CANARY}@/a", "ref": "v1"}, "holds credentials"),
        ({"from": f"https://git.example.org/a?private_token={CANARY}", "ref": "v1"}, "no plain URL"),
        ({"from": f"https://git.example.org/a#{CANARY}", "ref": "v1"}, "no plain URL"),
        ({"from": f"http://git.example.org/{CANARY}", "ref": "v1"}, "over https, ssh or file alone"),
        ({"from": f"ext::sh -c {CANARY}", "ref": "v1"}, "over https, ssh or file alone"),
        ({"from": f"git@git.example.org:{CANARY}", "ref": "v1"}, "neither a folder nor a URL"),
        ({"from": f"ssh://-oProxyCommand={CANARY}/a", "ref": "v1"}, "no plain URL"),
        ({"from": f"https://git.example.org/{CANARY}"}, "without ref"),
        ({"from": f"folder-{CANARY}", "ref": "v1"}, "ref belongs to a git URL"),
        ({"from": f"folder\n{CANARY}"}, "not printable"),
        ({"from": f"{CANARY}/" * 200}, "at most 1024"),
        ({"from": [CANARY]}, "valid string"),
        ({"from": f"https://git.example.org/{CANARY}", "ref": "--upload-pack=x"}, "should match pattern"),
        ({"from": f"https://git.example.org/{CANARY}", "ref": "a..b"}, "no name of git"),
        ({"from": "folder", "form": CANARY}, "not a known key"),
        ({"from": "folder", "max_mib": 65}, "less than or equal to 64"),
    ],
    ids=str,
)
def test_anything_else_is_refused_and_not_shown(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        declared(values)
    assert reason in caught.value.reason and caught.value.remedy
    assert caught.value.field.startswith("Pulumi.lab.yaml: desktops[0].customise")
    assert "canary" not in f"{caught.value}{caught.value!r}{caught.value.as_dict()}"


def test_its_place_is_not_in_what_is_printed_of_a_declaration() -> None:
    assert "dotfiles" not in repr(Customise.model_validate({"from": "dotfiles"}))
