"""What systemd prints of a boot is read; what it does not print is unknown, and never a failure."""

from pathlib import Path

import pytest

from deskyard.errors import CommandError
from deskyard.host.command import Result
from deskyard.host.vm.guest_boot import Guest
from deskyard.image.check.measures import MARK, measure, question, read, seconds

ANSWER = f"""93.17
{MARK}
running
{MARK}
Startup finished in 3.210s (kernel) + 1min 20.500s (userspace) = 1min 23.710s.
graphical.target reached after 1min 19.004s in userspace.
{MARK}
The time when unit became active or started is printed after the "@" character.
The time the unit took to start is printed after the "+" character.

graphical.target @1min 19.004s
└─vnc.service @40.1s +38.9s
  └─basic.target @39.8s
{MARK}
 38.900s vnc.service
1min 2.345s cloud-init.service
  87ms tmp.mount
{MARK}
MemTotal:        2014000 kB
MemFree:          100000 kB
MemAvailable:    1502000 kB
"""


@pytest.mark.parametrize(
    ("span", "expected"), [("87ms", 0.087), ("1min 2.345s", 62.345), ("2h 1min", 7260), ("12.5s", 12.5), ("", 0)]
)
def test_spans_are_read_as_seconds(span: str, expected: float) -> None:
    assert seconds(span) == expected


def test_boot_is_read_whole() -> None:
    found = read(ANSWER)
    assert (found.first_frame_seconds, found.state) == (93.17, "running")
    assert found.phases == {"kernel": 3.21, "userspace": 80.5}
    assert found.total_seconds == 83.71
    assert found.critical_chain[0] == "graphical.target @1min 19.004s"
    assert len(found.critical_chain) == 3
    assert found.slowest_units == {"vnc.service": 38.9, "cloud-init.service": 62.345, "tmp.mount": 0.087}
    assert found.idle_memory_mib == 500


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("", "unknown"),
        (f"{MARK}\nstarting\n", "starting"),
        (f"closed\n{MARK}\ndegraded\n{MARK}\nBootup is not yet finished.\n{MARK}\n", "degraded"),
    ],
)
def test_what_is_not_told_is_unknown(answer: str, state: str) -> None:
    found = read(answer)
    assert (found.state, found.first_frame_seconds) == (state, None)
    assert (found.phases, found.total_seconds, found.slowest_units, found.idle_memory_mib) == ({}, None, {}, None)


def test_guest_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def ssh(_: Guest, *command: str, **_options: object) -> Result:
        asked.append(command)
        return Result(command, 1, ANSWER, "", 0.0)

    monkeypatch.setattr(Guest, "ssh", ssh)
    assert measure(Guest(Path(), Path(), Path(), 1.0)) == read(ANSWER)
    assert asked == [(question(None),)]


def test_guest_that_does_not_answer_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ssh(*_arguments: object, **_options: object) -> Result:
        raise CommandError("command", "ssh", "did not end", "wait")

    monkeypatch.setattr(Guest, "ssh", ssh)
    assert measure(Guest(Path(), Path(), Path(), 1.0)).state == "unknown"
