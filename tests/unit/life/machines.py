"""Machines of workspace `lab` that do at once what they are asked."""

from dataclasses import replace
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from tests.desktop.lab import planned

PLAN = planned("dev1", "dev2")
GATEWAY, DEV1, DEV2 = (machine.domain for machine in PLAN.machines().values())


class Machines:
    """Machines that do at once what they are asked; `deaf` do not hear a shutdown."""

    def __init__(self) -> None:
        self.now = dict.fromkeys((GATEWAY, DEV1, DEV2), "running")
        self.wanted = dict.fromkeys(self.now, Power.RUNNING)
        self.deaf: set[str] = set()
        self.kept: list[Snapshot] = []
        self.moves: list[tuple[str, str, Power]] = []

    def states(self) -> dict[str, dict[str, Any]]:
        return {domain: {"state": state, "desired": self.wanted[domain]} for domain, state in self.now.items()}

    def desired(self) -> dict[str, Power]:
        return dict(self.wanted)

    def want(self, domain: str, wanted: Power) -> None:
        self.wanted[domain] = wanted

    def start(self, domain: str) -> None:
        self._move(domain, "running")

    def shut_down(self, domain: str, *, force: bool) -> None:
        if domain in self.deaf and not force:
            raise SiteError("machine", domain, "did not shut down", "add --force")
        self._move(domain, "stopped")

    def pause(self, domain: str, *, to_disk: bool) -> None:
        self._move(domain, "saved" if to_disk else "paused")

    def snapshots(self, domain: str) -> list[Snapshot]:
        return list(self.kept)

    def take_snapshot(self, domain: str, wanted: Snapshot) -> None:
        self.kept.append(replace(wanted, made=len(self.kept), memory=self.now[domain] == "running"))

    def restore_snapshot(self, domain: str, name: str) -> None:
        (kept,) = [snapshot for snapshot in self.kept if snapshot.name == name]
        self._move(domain, "running" if kept.memory else "stopped")

    def delete_snapshot(self, domain: str, name: str) -> None:
        self.kept = [snapshot for snapshot in self.kept if snapshot.name != name]

    def _move(self, domain: str, state: str) -> None:
        self.moves.append((domain, state, self.wanted[domain]))
        self.now[domain] = state
