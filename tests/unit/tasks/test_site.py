"""site.* and image.publish for sites that are no cluster, or are not there: one clear error, and code 1."""

from pathlib import Path

import pytest
import yaml

from tests.support.inv import inv
from tests.unit.site.stub import site_values

# Nobody listens there.
ENDPOINT = "https://127.0.0.1:9"
TASKS = [("site.check",), ("site.roles",), ("site.images",)]


@pytest.fixture(autouse=True)
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sites with one cluster, `rack`."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    (folder := tmp_path / "sites").mkdir()
    (folder / "rack.yaml").write_text(yaml.safe_dump({**site_values(ENDPOINT), "name": "rack"}))
    return folder


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_site_that_is_not_declared_is_named(task: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, *task, "nowhere", "--json")
    assert output.code == 1
    assert (output.document["error"]["field"], output.document["error"]["value"]) == ("site", "nowhere")
    assert "sites/nowhere.yaml does not exist" in output.document["error"]["reason"]
    assert output.err.startswith("error: site = 'nowhere'")


@pytest.mark.parametrize("task", TASKS[1:], ids=str)
def test_a_site_of_this_machine_is_refused(task: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, *task, "local", "--json")
    assert output.code == 1
    assert output.document["error"] == {
        "field": "site",
        "value": "local",
        "reason": "is no Proxmox VE cluster",
        "remedy": "name a site with backend: proxmox",
    }


def test_publishing_asks_for_the_site_before_the_image(capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "image.publish", "desktop", "--site", "nowhere", "--json")
    assert (output.code, output.document["error"]["field"]) == (1, "site")


@pytest.mark.parametrize(("release", "agent"), [("9.0", "VM.GuestAgent.Unrestricted"), ("8.4", "VM.Monitor")])
def test_roles_fit_the_release_and_no_cluster_is_asked(
    release: str, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = inv(capsys, "site.roles", "rack", "--release", release, "--json")
    assert output.code == 0
    assert all(role.keys() == {"name", "path", "privileges", "propagate"} for role in output.document)
    given = {name for role in output.document for name in role["privileges"]}
    assert agent in given
    assert not {"VM.GuestAgent.Unrestricted", "VM.Monitor"} - {agent} & given


def test_roles_are_commands_for_the_named_user(capsys: pytest.CaptureFixture[str]) -> None:
    roles = inv(capsys, "site.roles", "rack", "--release", "8.4", "--json").document
    output = inv(capsys, "site.roles", "rack", "--release", "8.4", "--user", "robot@pve")
    lines = output.out.splitlines()
    assert (output.code, lines[0]) == (0, "pveum user add robot@pve")
    for role in roles:
        assert sum(line.startswith(f"pveum role add {role['name']} --privs '") for line in lines) == 1
        grant = f"pveum acl modify {role['path']} --users robot@pve --roles {role['name']}"
        assert grant + ("" if role["propagate"] else " --propagate 0") in lines
    assert lines[-1].startswith("pveum user token add robot@pve deskyard")


@pytest.mark.parametrize("release", ["nine", "9", "9.x", ""])
def test_what_is_no_release_is_refused(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "site.roles", "rack", "--release", release, "--json")
    assert (output.code, output.document["error"]["field"]) == (1, "release")


def test_roles_of_no_release_are_asked_for_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "site.roles", "rack", "--json")
    assert (output.code, output.document["error"]["field"]) == (1, "release")
    assert "versions differ in their privileges" in output.document["error"]["reason"]
    assert "pveversion" in output.document["error"]["remedy"]


@pytest.mark.parametrize("task", [("site.check", "rack"), ("site.images", "rack")], ids=str)
def test_a_token_that_is_not_there_is_named(
    task: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DESKYARD_PROXMOX_TOKEN", raising=False)
    output = inv(capsys, *task, "--json")
    assert output.code == 1
    assert "token" in output.document["error"]["field"] + output.document["error"]["reason"]
