"""Kills processes of Mission Control at seeded events, never at times, while operations are wanted and watched."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx
import psycopg

from deskyard.control.store.cluster import RECORDER, WEB, WORKER
from deskyard.host.deadline import Deadline
from tests.control.lab import EVERYTHING, WAIT_SECONDS, Lab
from tests.control.stream import events

WORKSPACES = 8
PROCESSES = ("web", "worker", "recorder")
# A killed backend makes PostgreSQL send everybody away, and read its log again.
BACKENDS = (WEB, WORKER, RECORDER)
# What has happened to the round's operation when the kill comes; `asked` is before anybody knows of it.
MOMENTS = {
    "asked": "select 1",
    "admitted": "select 1 from operation where desktop_id = %(desktop)s",
    "claimed": "select 1 from operation where desktop_id = %(desktop)s and attempt > 0",
    "begun": "select 1 from operation_log l join operation o on o.id = l.operation_id where desktop_id = %(desktop)s",
    "done": "select 1 from operation where desktop_id = %(desktop)s and state = 'done'",
    "recorded": "select 1 from audit_entry where target = %(desktop)s",
}
AGAIN_SECONDS = 0.05
Place = tuple[int, int]


@dataclass
class Killing:
    """What a run wanted, killed and heard."""

    operations: dict[str, str] = field(default_factory=dict)
    kills: dict[tuple[str, str], int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    heard: list[tuple[Place, str, str]] = field(default_factory=list)

    def summary(self) -> str:
        """In a line."""
        by_victim = {who: sum(n for (victim, _), n in self.kills.items() if victim == who) for who, _ in self.kills}
        listed = ", ".join(f"{who} {count}" for who, count in sorted(by_victim.items()))
        longest = max(self.seconds, default=0.0)
        return (
            f"{sum(self.kills.values())} kills ({listed}) at {len({moment for _, moment in self.kills})} kinds of"
            f" events; {len(self.operations)} operations done; the longest from kill to end took {longest:.1f} s"
        )


def run(mission: Lab, seed: int, rounds: int) -> Killing:
    """Want an operation and kill one process in each round; returns when all that was wanted is done and heard."""
    chance, found = random.Random(seed), Killing()
    desktops = [f"w{chance.randrange(WORKSPACES)}.d{number}" for number in range(rounds)]
    for desktop in desktops:
        workspace, _, name = desktop.partition(".")
        mission.declare(workspace, name)
    key = mission.key(*EVERYTHING)
    with _watched(mission, key, found), ThreadPoolExecutor(2) as pool:
        for desktop in desktops:
            victim = chance.choice((*PROCESSES, *BACKENDS))
            moment = chance.choice(tuple(MOMENTS))
            asked = pool.submit(_ask, mission, key, desktop)
            _until(mission, MOMENTS[moment], desktop)
            _kill(mission, victim, chance)
            found.kills[victim, moment] = found.kills.get((victim, moment), 0) + 1
            _settle(mission, found, desktop, asked)
    return found


def _settle(mission: Lab, found: Killing, desktop: str, asked: "Future[str]") -> None:
    """Until the operation is done and its line is in the audit's chain."""
    started = time.monotonic()
    found.operations[desktop] = asked.result(WAIT_SECONDS)
    _until(mission, MOMENTS["done"], desktop)
    found.seconds.append(time.monotonic() - started)
    _until(mission, MOMENTS["recorded"], desktop)


def _ask(mission: Lab, key: str, desktop: str) -> str:
    """Want it by one request, sent again with its name until it is answered; the operation's id."""
    ids: list[str] = []

    def is_taken() -> bool:
        try:
            with mission.client(key) as client:
                answer = client.post(f"/api/desktops/{desktop}/restart", headers={"Idempotency-Key": desktop})
        except httpx.TransportError:
            return False
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return False
        assert answer.status_code == HTTPStatus.ACCEPTED, answer.text
        ids.append(answer.json()["id"])
        return True

    assert Deadline(WAIT_SECONDS).wait_for(is_taken, AGAIN_SECONDS), f"{desktop} was not taken"
    return ids[0]


def _until(mission: Lab, query: str, desktop: str) -> None:
    """Until a query has a row; the database may go away meanwhile."""
    _again(lambda: mission.until(query, {"desktop": desktop}), psycopg.OperationalError)


def _again(work: Callable[[], object], *errors: type[Exception]) -> None:
    def is_done() -> bool:
        try:
            work()
        except errors:
            return False
        return True

    assert Deadline(WAIT_SECONDS).wait_for(is_done, AGAIN_SECONDS)


def _kill(mission: Lab, victim: str, chance: random.Random) -> None:
    """End a process at once, and start it again as the supervisor does; a backend is the database's to start."""
    if victim in PROCESSES:
        mission.end(victim, signal.SIGKILL)
        getattr(mission, victim)()
        return
    query = "select pid from pg_stat_activity where usename = %s order by backend_start, pid"
    numbers = [row["pid"] for row in mission.link.execute(query, [victim]).fetchall()]
    if numbers:
        os.kill(chance.choice(numbers), signal.SIGKILL)
        mission.connect_again()


@contextmanager
def _watched(mission: Lab, key: str, found: Killing) -> Iterator[None]:
    """Follow the stream of events meanwhile, from the place that was heard last whenever it is cut."""
    last = "lab.last"
    began, over, broken = threading.Event(), threading.Event(), list[BaseException]()

    def hear() -> None:
        place = ""
        while not over.is_set():
            try:
                with mission.client(key) as client:
                    headers = {"Last-Event-ID": place} if place else {}
                    with client.stream("GET", "/api/events", headers=headers) as answer:
                        if answer.status_code != HTTPStatus.OK:
                            continue
                        lines = answer.iter_lines()
                        if next(lines, "").startswith(": deskyard"):
                            began.set()
                        for place, kind, data in events(lines):
                            first, _, second = place.partition("-")
                            subject = data.get("id") or f"{data['operationId']}/{data['number']}"
                            found.heard.append(((int(first), int(second)), kind, subject))
                            if subject == last:
                                over.set()
                                return
            except httpx.TransportError:
                over.wait(AGAIN_SECONDS)
            except BaseException as error:
                broken.append(error)
                began.set()
                over.set()

    thread = threading.Thread(target=hear, daemon=True)
    thread.start()
    try:
        assert began.wait(WAIT_SECONDS)
        # Something is heard before the first cut: it is from its place that the stream goes on.
        mission.declare("lab", "first")
        assert Deadline(WAIT_SECONDS).wait_for(lambda: bool(found.heard or broken), AGAIN_SECONDS)
        yield
        mission.declare("lab", "last")
        assert over.wait(WAIT_SECONDS), "the last event was not heard"
    finally:
        over.set()
        thread.join(WAIT_SECONDS)
    assert not broken, repr(broken)


def faults(mission: Lab, found: Killing) -> list[str]:
    """What of all that has to hold does not."""
    return [*_of_operations(mission, found), *_of_events(mission, found), *_of_audit(mission, found)]


def _of_operations(mission: Lab, found: Killing) -> Iterator[str]:
    rows = {row["desktop_id"]: row for row in mission.link.execute("select * from operation").fetchall()}
    if {desktop: row["id"] for desktop, row in rows.items()} != found.operations:
        yield f"wanted {found.operations}, kept {sorted(rows)}"
    for desktop, row in rows.items():
        ends = mission.effects(desktop).count("end")
        if row["state"] != "done" or not 1 <= ends <= row["attempt"]:
            yield f"{desktop}: {row['state']} at attempt {row['attempt']}, ended {ends} times"
    last: dict[str, int] = {}
    for effect in mission.all_effects():
        workspace = effect["desktop"].partition(".")[0]
        if effect["event"] == "begin":
            last[workspace] = effect["pid"]
        elif last.get(workspace) != effect["pid"]:
            yield f"{effect['desktop']}: {effect['pid']} ended although {last.get(workspace)} had begun in {workspace}"


def _of_events(mission: Lab, found: Killing) -> Iterator[str]:
    places = [place for place, _, _ in found.heard]
    if places != sorted(set(places)):
        yield "events came twice or in another order"
    first = places[0] if places else (0, 0)
    query = """select distinct on (kind, subject) xid::text as xid, id, kind, subject from event
        order by kind, subject, event.xid desc, id desc"""
    kept = {((int(row["xid"]), row["id"]), row["kind"], row["subject"]) for row in mission.link.execute(query)}
    for event in sorted(kept - set(found.heard)):
        if first <= event[0] <= places[-1]:
            yield f"the last of {event[1]} {event[2]} was not told"


def _of_audit(mission: Lab, found: Killing) -> Iterator[str]:
    with mission.client(mission.key(*EVERYTHING)) as client:
        verdict = client.get("/api/audit/verify").json()
    if not verdict["ok"]:
        yield f"the chain of the audit is broken: {verdict}"
    query = "select detail->>'operation' as operation from audit_entry where detail->>'operation' = any(%s)"
    rows = mission.link.execute(query, [list(found.operations.values())]).fetchall()
    if sorted(row["operation"] for row in rows) != sorted(found.operations.values()):
        yield f"{len(found.operations)} operations have {len(rows)} lines in the audit"
