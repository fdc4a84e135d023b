"""The inside of the peer's machines answers as QEMU's guest agent does behind the API of Proxmox VE."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proxmox.inhabited import Inhabitants, inhabit
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine, refused
from tests.support.pve.guests import nic

AGENT = f"{NODE}/100/agent"
LINK = "[Match]\nMACAddress={mac}\n\n[Link]\nName=uplink\n"
NETWORK = "[Match]\nMACAddress={mac}\n\n[Network]\nAddress=192.0.2.9/24\n"


@pytest.fixture
def inside(peer: Peer, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inhabitants]:
    """A running machine with somebody in it."""
    with inhabit(peer, tmp_path, monkeypatch) as inhabitants:
        machine(root, ipconfig0="ip=192.0.2.7/24")
        root.finish("POST", f"{NODE}/100/status/start")
        yield inhabitants


def ended(root: Client, *command: str, **more: str) -> dict[str, Any]:
    """Run a program in the machine; how it ended."""
    pid = root.ask("POST", f"{AGENT}/exec", command=list(command), **more)["pid"]
    for _ in range(1000):
        status: dict[str, Any] = root.ask("GET", f"{AGENT}/exec-status", pid=pid)
        if status["exited"]:
            return status
        assert status == {"exited": 0}
    raise AssertionError("it goes on")


def test_a_program_runs_and_its_output_and_exit_code_are_told(inside: Inhabitants, root: Client) -> None:
    assert ended(root, "/bin/sh", "-c", "echo a; echo b >&2; exit 3") == {
        "exited": 1,
        "exitcode": 3,
        "out-data": "a\n",
        "err-data": "b\n",
    }
    assert ended(root, "true") == {"exited": 1, "exitcode": 0}
    assert ended(root, "/bin/sh", "-c", "kill -9 $$") == {"exited": 1, "signal": 9}
    assert inside.systems["vm100"].ran[1] == (["true"], "")


def test_input_is_what_the_program_reads(inside: Inhabitants, root: Client) -> None:
    assert ended(root, "/bin/sh", **{"input-data": 'echo "it\'s $((6 * 7))"'})["out-data"] == "it's 42\n"


def test_an_end_is_told_once_and_a_foreign_process_never(inside: Inhabitants, root: Client) -> None:
    pid = root.ask("POST", f"{AGENT}/exec", command=["true"])["pid"]
    while not root.ask("GET", f"{AGENT}/exec-status", pid=pid)["exited"]:
        pass
    for unknown in (pid, 1):
        refused(root.get(f"{AGENT}/exec-status", params={"pid": unknown}), 500, "Agent error: Invalid parameter 'pid'")


def test_a_program_that_is_not_there_is_an_error_of_the_agent(inside: Inhabitants, root: Client) -> None:
    refused(root.post(f"{AGENT}/exec", data={"command": ["/no/such"]}), 500, "Agent error: Guest agent command failed")


def test_files_are_those_of_the_machine_and_of_nobody_else(inside: Inhabitants, root: Client) -> None:
    ended(root, "/bin/sh", "-c", "echo mine > /etc/passwd")
    assert root.ask("GET", f"{AGENT}/file-read", file="/etc/passwd")["content"] == "mine\n"
    key = root.ask("GET", f"{AGENT}/file-read", file="/etc/ssh/ssh_host_ed25519_key.pub")["content"]
    assert key.startswith(inside.systems["vm100"].public_key)
    missing = root.get(f"{AGENT}/file-read", params={"file": "/etc/none"})
    refused(missing, 500, "Agent error: failed to open file '/etc/none' (mode: 'r'): No such file or directory")


@pytest.mark.parametrize("written", ["virtio=02:00:00:AA:BB:CC,bridge=vmbr0", "model=virtio,macaddr=02:00:00:AA:BB:CC"])
def test_the_address_of_a_nic_stands_behind_its_model_or_by_itself(written: str) -> None:
    assert nic(written)["mac"] == "02:00:00:AA:BB:CC"


def test_nics_have_clouds_names_until_files_that_are_read_at_a_start_say_otherwise(
    inside: Inhabitants, root: Client
) -> None:
    system = inside.systems["vm100"]
    assert system.nics() == {"eth0": "192.0.2.7/24"}
    mac = root.ask("GET", f"{NODE}/100/config")["net0"].split(",")[0].partition("=")[2].lower()
    for kind, text in (("link", LINK), ("network", NETWORK)):
        (system.root / f"etc/systemd/network/10-uplink.{kind}").write_text(text.format(mac=mac))
    assert ended(root, "ls", "/sys/class/net")["out-data"] == "eth0\n"
    assert ended(root, "/bin/sh", "-c", "systemd-run --on-active=2 systemctl reboot")["exitcode"] == 0
    refused(root.post(f"{AGENT}/ping"), 500, "QEMU guest agent is not running")
    assert ended(root, "ls", "/sys/class/net")["out-data"] == "uplink\n"
    assert (system.boots, system.nics()) == (2, {"uplink": "192.0.2.9/24"})


def test_each_machine_has_a_system_of_its_own_and_a_new_one_another(inside: Inhabitants, root: Client) -> None:
    machine(root, 101)
    first, second = inside.systems["vm100"], inside.systems["vm101"]
    assert first.public_key != second.public_key
    assert inside.systems["vm100"] is first
    root.finish("POST", f"{NODE}/100/status/stop")
    root.finish("DELETE", f"{NODE}/100")
    machine(root, 100)
    assert inside.systems["vm100"].public_key != first.public_key
