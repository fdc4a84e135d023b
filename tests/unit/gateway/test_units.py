"""The states of units, as a real message bus carries them; what systemd answers is held against it in the image."""

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jeepney import new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from deskyard.gateway.machine.units import MANAGER, unit_states
from tests.support.requirements import need_programs

NAMES = ("haproxy.service", "deskyard-dns.service")
SECONDS = 60.0


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A message bus in place of the system's."""
    need_programs("dbus-daemon")
    address = f"unix:path={tmp_path / 'bus'}"
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    argv = ["dbus-daemon", "--session", "--nofork", "--print-address", f"--address={address}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        yield address
        daemon.kill()


def answering(address: str, states: dict[str, str]) -> threading.Thread:
    """Somebody who has systemd's name there, and answers the next question; of no states with an error."""
    manager: DBusConnection = open_dbus_connection(address)
    manager.send_and_get_reply(message_bus.RequestName(MANAGER.bus_name), timeout=SECONDS)

    def answer() -> None:
        with manager:
            while True:
                asked: Any = manager.receive(timeout=SECONDS)
                if asked.body == (list(NAMES),):
                    break
            rows = [(name, "", "loaded", state, "", "", "/", 0, "", "/") for name, state in states.items()]
            reply = new_method_return(asked, "a(ssssssouso)", (rows,)) if states else new_error(asked, "a.b")
            manager.send_message(reply)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ({NAMES[1]: "failed", NAMES[0]: "active"}, ["active", "failed"]),
        ({NAMES[0]: "activating"}, ["activating", "unknown"]),
        ({}, ["unknown", "unknown"]),
    ],
)
def test_each_unit_has_the_state_that_systemd_says(bus: str, states: dict[str, str], found: list[str]) -> None:
    manager = answering(bus, states)
    assert unit_states(NAMES) == found
    manager.join(SECONDS)


def test_without_systemd_every_state_is_unknown(bus: str) -> None:
    assert unit_states(NAMES) == ["unknown", "unknown"]


def test_without_a_bus_every_state_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'none'}")
    assert unit_states(NAMES) == ["unknown", "unknown"]
