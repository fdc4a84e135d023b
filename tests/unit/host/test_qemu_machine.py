"""A QEMU process is found by its pid file, shows its screen, and ends when it is told to."""

import os
from pathlib import Path

import pytest
from PIL import Image

from deskyard.errors import SiteError
from deskyard.host.vm.qemu import PID_FILE, Machine, machines_below
from tests.support.qemu import stopped_machine


def test_screen_is_saved_as_a_picture(tmp_path: Path) -> None:
    with stopped_machine(tmp_path) as machine:
        machine.screenshot(tmp_path / "screen.png")
    with Image.open(tmp_path / "screen.png") as picture:
        assert (picture.format, picture.width >= 640) == ("PNG", True)
    assert not (tmp_path / "screen.ppm").exists()


def test_screen_of_a_machine_that_has_ended_is_refused(tmp_path: Path) -> None:
    with stopped_machine(tmp_path) as machine:
        machine.end()
        with pytest.raises(SiteError, match="no screenshot"):
            machine.screenshot(tmp_path / "screen.png")
    assert not (tmp_path / "screen.png").exists()


def test_ended_machine_has_no_pid_any_more(tmp_path: Path) -> None:
    with stopped_machine(tmp_path) as machine:
        assert machine.pid() is not None
        assert list(machines_below(tmp_path.parent)) == [machine]
        machine.end()
        assert machine.pid() is None
        assert list(machines_below(tmp_path.parent)) == []


def test_stranger_that_got_the_pid_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / PID_FILE).write_text(str(os.getpid()))
    assert Machine(tmp_path).pid() is None
    Machine(tmp_path).end()


def test_port_of_ssh_is_read_from_the_command_line(tmp_path: Path) -> None:
    network = ["-netdev", "user,id=n,hostfwd=tcp:127.0.0.1:0-:80"]
    with stopped_machine(tmp_path, network) as machine:
        assert machine.ssh_port() is None
        machine.end()
    assert machine.ssh_port() is None


@pytest.mark.parametrize("address", ["", "127.0.0.1"])
def test_port_of_ssh_is_found_with_and_without_an_address(tmp_path: Path, address: str) -> None:
    network = ["-netdev", f"user,id=n,hostfwd=tcp:{address}:0-:22"]
    with stopped_machine(tmp_path, network) as machine:
        assert machine.ssh_port() == 0
