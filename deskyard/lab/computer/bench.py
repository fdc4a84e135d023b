"""Runs all that is measured of the computer-use service, one part after the other on one screen."""

from deskyard.host.progress import step
from deskyard.lab.computer import calls, events, streams
from deskyard.lab.computer.figures import Figure
from deskyard.lab.computer.screen import screen


def measure() -> list[Figure]:
    """Every figure; raises `HostError` if a program is missing."""
    with screen() as on:
        with step("calls"):
            found = calls.measure(on)
        with step("events"):
            found += events.measure(on)
        with step("streams"):
            found += streams.measure(on)
    return found
