"""Kills each process of a whole Mission Control at seeded events, never at times, while the work of all is asked for.

A trip goes by every process: the proxy carries a request, web writes it down, the worker does it, the recorder has its
line, the observer sees a declaration that cannot be read, watch tells of it, and link asks way for a gateway.
"""

import json
import os
import random
import signal
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from deskyard.control.process.postmaster import LONGEST_PAUSE
from deskyard.control.queue.claim import LEASE_SECONDS
from deskyard.host.deadline import Deadline
from tests.control.lab import START_SECONDS, WAIT_SECONDS
from tests.control.site import Site

# By then a lease is over, and the longest pause before a process begins again. What a busy machine adds to that fails
# nothing: it is waited for longer, and measured.
RESUMED_SECONDS = LEASE_SECONDS + LONGEST_PAUSE
LONGEST_SECONDS = 4 * RESUMED_SECONDS
AGAIN_SECONDS = 0.1
AWAY = (OSError, ssl.SSLError, HTTPException, ValueError)
BROKEN = "config:\n  deskyard:network: 8.8.8.0/24\n  deskyard:desktops:\n  - {name: first, tier: free}\n"
# What has happened of a trip when the kill comes.
MOMENTS = ("nothing", "asked", "admitted", "claimed", "declared", "seen", "done")


@dataclass
class Trips:
    """A site, whoever asks it, and what was wanted, killed and measured."""

    site: Site
    key: str
    operations: dict[str, str] = field(default_factory=dict)
    kills: list[tuple[str, str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def go(self, number: int, victim: str, moment: str, pool: ThreadPoolExecutor) -> None:
        """Kill a process at a moment of a trip, and wait until it runs again and the trip is over."""
        name, wanted = f"r{number}", list[Future[str]]()
        steps: dict[str, Callable[[], object]] = {
            "nothing": lambda: None,
            "asked": lambda: wanted.append(pool.submit(self._want, name, number + 1)),
            "admitted": lambda: wanted[0].result(START_SECONDS),
            "claimed": lambda: self._until(lambda: self._operation(wanted[0].result())["attempt"] > 0),
            "declared": lambda: self._declare(name),
            "seen": lambda: self._until(lambda: bool(self._get(f"/api/workspaces/{name}")["problem"])),
            "done": lambda: self._until(lambda: self._operation(wanted[0].result())["state"] == "done"),
        }
        for step in MOMENTS[: MOMENTS.index(moment) + 1]:
            steps[step]()
        self._kill(victim)
        self.kills.append((victim, moment))
        for step in ("asked", "declared"):
            if MOMENTS.index(step) > MOMENTS.index(moment):
                steps[step]()
        started = time.monotonic()
        over = Deadline(LONGEST_SECONDS)
        self.operations[name] = wanted[0].result(START_SECONDS)
        for what, holds in (
            ("done", lambda: self._operation(self.operations[name])["state"] == "done"),
            ("recorded", lambda: self._lines(self.operations[name]) == 1),
            ("told", lambda: self._get(f"/api/alerts?open=true&workspace={name}")["total"] == 1),
            ("asked of its gateway", self._asks_gateways),
        ):
            is_there = over.wait_for(_whenever(holds), AGAIN_SECONDS)
            assert is_there, f"{victim} killed when {moment}: not {what} in {LONGEST_SECONDS:.0f} s\n{self._logs()}"
        self.seconds.append(time.monotonic() - started)

    def faults(self) -> list[str]:
        """What was lost, or done twice."""
        found = []
        kept = self._get("/api/operations?limit=200")["items"]
        ids = sorted(each["id"] for each in kept if each["kind"] == "retention.set")
        if ids != sorted(self.operations.values()):
            found.append(f"wanted {sorted(self.operations.values())}, kept {ids}")
        found += [f"{each['id']} is {each['state']}" for each in kept if each["state"] != "done"]
        found += [f"{id} has {lines} lines" for id in ids if (lines := self._lines(id)) != 1]
        for name in self.operations:
            if (alerts := self._get(f"/api/alerts?workspace={name}")["total"]) != 1:
                found.append(f"{name} has {alerts} alerts")
        if not self._get("/api/audit/verify")["ok"]:
            found.append("the chain of the audit is broken")
        if (days := self._get("/api/retention")["items"][0]["days"]) != len(self.operations):
            found.append(f"the policy of the last trip is not in force: {days} days")
        return found

    def summary(self) -> str:
        """In a line."""
        return f"{len(self.kills)} kills; the longest from running again to the trip's end: {max(self.seconds):.1f} s"

    def _want(self, name: str, days: int) -> str:
        """Want a policy by one request, sent again with its name until it is answered; the operation's id."""
        found: list[str] = []

        def is_taken() -> bool:
            headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": name}
            answer, text = self.site.post("/api/retention", {"days": days}, **headers)
            if answer.status < 500:
                assert answer.status == 202, text
                found.append(json.loads(text)["id"])
            return bool(found)

        self._until(is_taken)
        return found[0]

    def _declare(self, name: str) -> None:
        (self.site.stacks / f"Pulumi.{name}.yaml").write_text(BROKEN)

    def _get(self, path: str) -> Any:
        """A document of the API by the proxy; raises one of `AWAY` if there is none now."""
        answer, text = self.site.get(path, Authorization=f"Bearer {self.key}")
        if answer.status != 200:
            raise HTTPException(f"{path}: {answer.status}")
        return json.loads(text)

    def _operation(self, id: str) -> Any:
        return self._get(f"/api/operations/{id}")

    def _lines(self, operation: str) -> int:
        """How many lines the audit's chain has of an operation."""
        _, text = self.site.get("/api/audit/export", Authorization=f"Bearer {self.key}")
        lines = map(json.loads, text.splitlines())
        return sum(line["action"] == "retention.set" and line["detail"]["operation"] == operation for line in lines)

    def _asks_gateways(self) -> bool:
        """Whether link asks, and way says of whom there is no declaration."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(RESUMED_SECONDS)
            line.connect(str(self.site.control.folder.link_socket))
            line.sendall(b'{"workspace": "nowhere", "question": "list"}\n')
            with line.makefile("rb") as stream:
                return bool(json.loads(stream.read())["error"]["reason"] == "is not declared")

    def _kill(self, victim: str) -> None:
        """End a process at once, and wait until its supervisor has begun it again and the whole is ready.

        How long that takes is the machine's: it imports its libraries.
        """
        before = self.site.processes()[victim]
        os.kill(before, signal.SIGKILL)

        def is_back() -> bool:
            return self.site.processes().get(victim) not in (None, before) and self.site.control.status()["ready"]

        assert Deadline(START_SECONDS).wait_for(_whenever(is_back), AGAIN_SECONDS), f"{victim}\n{self._logs()}"

    def _until(self, holds: Callable[[], bool]) -> None:
        assert Deadline(WAIT_SECONDS).wait_for(_whenever(holds), AGAIN_SECONDS), self._logs()

    def _logs(self) -> str:
        logs = sorted(self.site.control.folder.logs.iterdir())
        return "\n".join(f"{log.name}: {line}" for log in logs for line in log.read_text().splitlines()[-5:])


def run(site: Site, seed: int, rounds: int) -> Trips:
    """Go on so many trips, on which each process is killed as often as any other, give or take one."""
    chance = random.Random(seed)
    trips = Trips(site, site.control.key("trips", ["read", "admin"], None, 1)["key"])
    victims = sorted(site.processes())
    order = [victim for _ in range(-(-rounds // len(victims))) for victim in chance.sample(victims, len(victims))]
    try:
        with ThreadPoolExecutor(1) as pool:
            for number, victim in enumerate(order[:rounds]):
                trips.go(number, victim, chance.choice(MOMENTS), pool)
    finally:
        for path in site.stacks.iterdir():
            path.unlink()
    return trips


def _whenever(holds: Callable[[], bool]) -> Callable[[], bool]:
    """The same, and false while something that is asked for it is away."""

    def held() -> bool:
        try:
            return holds()
        except AWAY:
            return False

    return held
