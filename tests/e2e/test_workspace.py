"""Workspaces as their users drive them: nothing changes twice, mistakes are refused before anything is touched."""

import json
import socket

import pytest

from tests.support.workspaces import Declared, Running, inv

pytestmark = pytest.mark.vm


def test_a_second_up_changes_nothing(ours: Running) -> None:
    answer = json.loads(ours.inv("workspace.preview", ours.name, "--json", timeout=600).stdout)
    changes = {kind: count for kind, count in answer["changes"].items() if kind != "same" and count}
    assert changes == {}


def test_status_names_every_desktop_and_its_routes(ours: Running) -> None:
    answer = json.loads(ours.inv("workspace.status", ours.name, "--json").stdout)
    text = json.dumps(answer)
    for desktop in ours.plan.desktops:
        assert desktop.name in text
        assert desktop.address in text


def test_desktop_finds_the_names_of_its_workspace_and_no_others(ours: Running) -> None:
    # Its own name is in its /etc/hosts, before anybody is asked.
    others = {desktop.name: desktop.address for desktop in ours.plan.desktops if desktop.name != "desk"}
    for name, address in {"gateway": ours.plan.gateway.workspace_address, **others}.items():
        assert ours.ssh("desk", f"getent ahostsv4 {name}").stdout.split()[0] == address, name
    assert ours.ssh("desk", "getent ahostsv4 nobody", check=False).returncode == 2


def test_state_holds_no_secret_in_plain_text(ours: Running) -> None:
    states = [path.read_text() for path in ours.declared.folder.glob(".pulumi/**/*.json")]
    assert states
    assert not any("PRIVATE KEY" in state for state in states)


@pytest.mark.parametrize(
    ("network", "port", "expected"),
    [("10.91.1.0/24", 18449, "overlap"), ("10.91.9.0/24", 18443, "18443")],
    ids=["a network of another workspace", "a port of another workspace"],
)
def test_what_another_workspace_has_is_refused_before_anything_is_touched(
    ours: Running, network: str, port: int, expected: str
) -> None:
    third = Declared("e2e-c", network, port, ("desk",), ours.declared.folder)
    third.write()
    try:
        done = inv(third.folder, "workspace.up", third.name, timeout=600, check=False)
        assert done.returncode == 1
        assert expected in done.stderr
        assert "->" in done.stderr
        assert not list(third.folder.glob(".pulumi/stacks/**/e2e-c.json"))
    finally:
        (third.folder / "Pulumi.e2e-c.yaml").unlink()


def test_a_port_taken_by_a_stranger_is_refused(ours: Running) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        third = Declared("e2e-c", "10.91.9.0/24", port, ("desk",), ours.declared.folder)
        third.write()
        try:
            done = inv(third.folder, "workspace.up", third.name, timeout=600, check=False)
            assert done.returncode == 1
            assert str(port) in done.stderr
        finally:
            (third.folder / "Pulumi.e2e-c.yaml").unlink()


def test_an_unknown_workspace_is_refused_with_what_to_do(ours: Running) -> None:
    done = ours.inv("workspace.up", "nobody", check=False)
    assert done.returncode == 1
    assert "Pulumi.nobody.yaml" in done.stderr
