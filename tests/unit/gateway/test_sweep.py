"""The sweep of sessions rests until something is due, and is woken by what happens."""

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deskyard.control.link import question
from deskyard.errors import GatewayError
from deskyard.gateway.actions.table import KEEP_SECONDS
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session import signing, tokens
from deskyard.gateway.session.audit import Audit
from deskyard.gateway.session.sessions import (
    ENDED_AT_ONCE,
    LOOK_SECONDS,
    MOST_SESSIONS,
    NEW_WORKER_SECONDS,
    TELL_SECONDS,
    Sessions,
)
from deskyard.gateway.session.store import Session, Store, ticket_hash
from deskyard.gateway.session.streams import NoLine
from tests.unit.gateway.support import parsed
from tests.unit.gateway.test_store import NOW, session

LAYOUT = Layout()
LONG = NEW_WORKER_SECONDS + 1
WAIT_SECONDS = 60


class Workers:
    """HAProxy with one worker that does what it is told, or does not answer."""

    def __init__(self) -> None:
        self.deaf = False
        self.deaf_pids: set[int] = set()
        self.pids = [8]
        self.asked: list[int] = []
        self.admitted: list[str] = []
        self.refused: list[str] = []
        self.busy = self.most_busy = 0
        self.gate: asyncio.Event | None = None

    async def workers(self) -> list[int]:
        return self.pids

    async def admit(self, grants: Sequence[Session], workers: Sequence[int] | None = None) -> bool:
        self.admitted += [grant.id for grant in grants]
        self.asked += workers or ()
        return not (self.deaf or self.deaf_pids & set(workers or ()))

    async def shut(self, pid: int, listed: Path) -> set[str] | None:
        return set()

    async def refuse(self, grant: Session, *, revoked: bool) -> int:
        self.refused.append(grant.id)
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        if self.gate is not None:
            await self.gate.wait()
        self.busy -= 1
        return 0 if self.deaf else 1


class Desk:
    """Sessions with a clock that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.now, self.proxy, self.store = NOW, Workers(), Store(folder / "sessions.db")
        layout = Layout(root=folder)
        signing.ensure(layout.signing_keys, None)
        keys, audit = signing.Ring(layout.signing_keys), Audit(layout.audit_file)
        proxy: Any = self.proxy
        # What the clock is set back by is all that the other one does not share.
        self.back = 0.0
        own = partial(Sessions, parsed(), self.store, proxy, audit, keys, layout)
        self.sessions = own(lambda: self.now, lambda: self.now + self.back)
        self.audit = layout.audit_file

    def set_back(self, seconds: float) -> None:
        """Set the clock back."""
        self.now -= seconds
        self.back += seconds

    def join(self, letter: str = "A", **changes: object) -> Session:
        """A session that is in use."""
        self.store.add(session(id=letter * 24, **changes), ticket_hash(letter))
        found, _ = asyncio.run(self.sessions.redeem(letter, "192.0.2.1"))
        return found

    def rest(self) -> float:
        """Sweep; for how long there is nothing to do after it."""
        return asyncio.run(self.sessions.sweep())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_gateway_without_sessions_rests(desk: Desk) -> None:
    assert desk.rest() == LOOK_SECONDS


def test_new_session_is_brought_to_workers_that_just_start(desk: Desk) -> None:
    desk.join()
    assert desk.sessions.woken.is_set()
    assert desk.rest() == 0
    desk.proxy.pids = [8, 9]
    desk.rest()
    assert desk.proxy.admitted[-1] == "A" * 24
    desk.now += LONG
    assert desk.rest() == LOOK_SECONDS


def test_end_of_a_session_is_met_to_the_moment(desk: Desk) -> None:
    grant = desk.join()
    desk.now = grant.ends - 2
    assert desk.rest() == pytest.approx(2)
    assert desk.proxy.refused == []
    desk.now = grant.ends
    desk.rest()
    assert desk.proxy.refused == [grant.id]


def test_socket_that_could_not_be_closed_is_tried_again_at_once(desk: Desk) -> None:
    grant = desk.join()
    desk.now, desk.proxy.deaf = grant.ends + LONG, True
    assert desk.rest() == 0
    desk.proxy.deaf = False
    assert desk.rest() == LOOK_SECONDS
    assert desk.proxy.refused == [grant.id, grant.id]


def join_many(desk: Desk, count: int) -> list[str]:
    """So many sessions that are in use."""
    with desk.store.whole():
        for number in range(count):
            desk.store.add(session(id=f"{number:024}"), ticket_hash(str(number)))
            desk.store.redeem(ticket_hash(str(number)), "192.0.2.1", NOW, NOW + 900)
    return [f"{number:024}" for number in range(count)]


@pytest.mark.parametrize("end", ["expire", "revoke"])
def test_many_that_end_at_once_are_closed_some_at_a_time(desk: Desk, end: str) -> None:
    ids = join_many(desk, 2 * ENDED_AT_ONCE + 1)

    async def body() -> None:
        desk.proxy.gate = asyncio.Event()
        ending: asyncio.Task[Any]
        if end == "expire":
            desk.now += 901
            ending = asyncio.create_task(desk.sessions.sweep())
        else:
            ending = asyncio.create_task(desk.sessions.revoke(None, None, True, "ann"))
        async with asyncio.timeout(WAIT_SECONDS):
            while desk.proxy.busy < ENDED_AT_ONCE:
                await asyncio.sleep(0)
            desk.proxy.gate.set()
            await ending

    asyncio.run(body())
    assert sorted(desk.proxy.refused) == ids
    assert desk.proxy.most_busy == ENDED_AT_ONCE
    assert desk.store.to_close(desk.now) == []


def test_revocation_waits_for_no_more_than_some_that_end_at_once(desk: Desk) -> None:
    join_many(desk, 3 * ENDED_AT_ONCE)
    later = desk.join("A", issued=NOW, expires=NOW + 7200)
    desk.now += 1000
    desk.store.renew(later.id, desk.now + 900, NOW)

    async def body() -> None:
        desk.proxy.gate = asyncio.Event()
        sweeping = asyncio.create_task(desk.sessions.sweep())
        async with asyncio.timeout(WAIT_SECONDS):
            while desk.proxy.busy < ENDED_AT_ONCE:
                await asyncio.sleep(0)
            revoking = asyncio.create_task(desk.sessions.revoke(later.id, None, False, "ann"))
            await asyncio.sleep(0)
            desk.proxy.gate.set()
            await revoking
            assert later.id in desk.proxy.refused[: 2 * ENDED_AT_ONCE + 1]
            await sweeping

    asyncio.run(body())
    assert len(desk.proxy.refused) == 3 * ENDED_AT_ONCE + 1


def test_revocation_of_many_and_the_sweep_that_it_wakes_close_each_once(desk: Desk) -> None:
    ids = join_many(desk, 6 * ENDED_AT_ONCE)
    desk.rest()

    async def body() -> None:
        desk.proxy.gate = asyncio.Event()
        revoking = asyncio.create_task(desk.sessions.revoke(None, None, True, "ann"))
        async with asyncio.timeout(WAIT_SECONDS):
            while desk.proxy.busy < ENDED_AT_ONCE:
                await asyncio.sleep(0)
            sweeping = asyncio.create_task(desk.sessions.sweep())
            await asyncio.sleep(0)
            desk.proxy.gate.set()
            await asyncio.gather(revoking, sweeping)

    asyncio.run(body())
    assert sorted(desk.proxy.refused) == ids
    assert desk.proxy.most_busy == ENDED_AT_ONCE
    assert desk.store.to_close(desk.now) == []


def test_revocation_of_many_asks_a_proxy_that_does_not_answer_about_some(desk: Desk) -> None:
    ids = join_many(desk, 2 * ENDED_AT_ONCE)
    desk.rest()
    desk.proxy.deaf = True
    asyncio.run(desk.sessions.revoke(None, None, True, "ann"))
    assert len(desk.proxy.refused) == ENDED_AT_ONCE
    desk.proxy.deaf = False
    desk.rest()
    assert sorted(desk.proxy.refused[ENDED_AT_ONCE:]) == ids


def test_worker_that_did_not_take_a_session_is_asked_again_at_once(desk: Desk) -> None:
    desk.join()
    desk.now += LONG
    desk.rest()
    desk.proxy.pids, desk.proxy.deaf = [9], True
    assert desk.rest() == 0
    desk.proxy.deaf = False
    assert desk.rest() == LOOK_SECONDS


def test_worker_that_has_all_sessions_is_not_asked_again_for_another_that_lacks_them(desk: Desk) -> None:
    desk.join()
    desk.rest()
    desk.proxy.pids, desk.proxy.deaf_pids = [8, 9], {9}
    desk.proxy.asked.clear()
    desk.rest()
    desk.rest()
    desk.proxy.deaf_pids = set()
    desk.rest()
    desk.rest()
    assert desk.proxy.asked == [9, 9, 9]


def test_worker_that_hangs_holds_up_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.proxy.pids = [9, 8]
    desk.join()
    admit, others = desk.proxy.admit, asyncio.Event()

    async def hangs(grants: Sequence[Session], workers: Sequence[int] | None = None) -> bool:
        if workers == [9]:
            async with asyncio.timeout(5):
                await others.wait()
            return False
        taken = await admit(grants, workers)
        others.set()
        return taken

    monkeypatch.setattr(desk.proxy, "admit", hangs)
    desk.now += LONG
    assert desk.rest() == 0.0
    assert desk.proxy.asked == [8]


def test_new_worker_has_whoever_came_last_first(desk: Desk) -> None:
    for letter in "ABC":
        desk.now += 1
        desk.join(letter)
    desk.rest()
    desk.proxy.admitted.clear()
    desk.proxy.pids = [8, 9]
    desk.rest()
    assert desk.proxy.admitted == [letter * 24 for letter in "CBA"]


def test_revoking_wakes_the_sweep_and_moves_the_drive_at_once(desk: Desk) -> None:
    first, second = desk.join("A"), desk.join("B")
    desk.sessions.streams.begin(1, first, "192.0.2.1")
    desk.sessions.streams.begin(2, second, "192.0.2.1")
    desk.now += LONG
    desk.sessions.woken.clear()
    asyncio.run(desk.sessions.revoke(first.id, None, False, "tester"))
    assert desk.sessions.woken.is_set()
    assert desk.sessions.streams.drives(second)


def test_drive_never_passes_to_a_session_that_ended_too(desk: Desk) -> None:
    for n, letter in enumerate("AB"):
        desk.sessions.streams.begin(n, desk.join(letter), "192.0.2.1")
    asyncio.run(desk.sessions.revoke(None, None, True, "tester"))
    assert desk.sessions.streams.drivers == {}


def test_driver_who_leaves_and_one_who_sleeps_are_due(desk: Desk) -> None:
    streams = desk.sessions.streams
    first = desk.join("A", expires=NOW + 36000)
    streams.begin(1, first, "192.0.2.1")
    desk.now += LONG
    assert streams.due() is None  # nobody waits
    streams.begin(2, desk.join("B", expires=NOW + 36000), "192.0.2.1")
    assert streams.due() == NOW + LAYOUT.driver_idle_seconds
    desk.sessions.woken.clear()
    streams.end(1)
    assert desk.sessions.woken.is_set()
    desk.rest()
    assert streams.due() == desk.now + LAYOUT.driver_away_seconds


def test_session_lasts_as_long_as_was_granted_though_the_clock_is_set_back(desk: Desk) -> None:
    grant = desk.join(expires=NOW + 3600)
    desk.store.add(session(id="B" * 24, ticket_expires=NOW + 600), ticket_hash("B"))
    left = grant.ends - desk.now
    desk.rest()
    desk.now += 10
    desk.set_back(86_400)
    desk.rest()
    moved = desk.store.get(grant.id)
    assert moved is not None and moved.ends - desk.now == pytest.approx(left - 10)
    desk.now = moved.ends
    desk.rest()
    assert desk.proxy.refused == [grant.id]
    # Neither does a ticket last longer.
    desk.now = NOW - 86_400 + 601
    with pytest.raises(GatewayError, match="this link has expired"):
        asyncio.run(desk.sessions.redeem("B", "192.0.2.1"))
    assert [line["seconds"] for line in lines(desk) if line["event"] == "clock"] == [86_400]


def test_token_of_before_the_clock_was_set_back_is_still_good(desk: Desk) -> None:
    ring = signing.Ring(Layout(root=desk.audit.parents[3]).signing_keys)
    desk.now = time.time() + 3600
    found = desk.join(issued=desk.now, expires=desk.now + 7200, ticket_expires=desk.now + 600)
    token = tokens.sign(found, desk.sessions.settings.workspace, desk.now, ring.kid, ring.private)
    desk.rest()
    desk.set_back(3600)
    desk.rest()
    claims = tokens.verify(token, ring.public, desk.sessions.settings.workspace)
    assert desk.sessions.session_of(claims, "d1").id == found.id


def test_clock_that_is_disciplined_or_set_ahead_moves_no_end(desk: Desk) -> None:
    grant = desk.join(expires=NOW + 36_000)
    for seconds in (1.5, -600):
        desk.rest()
        desk.set_back(seconds)
        desk.rest()
    found = desk.store.get(grant.id)
    assert found is not None and found.expires == grant.expires
    assert [line for line in lines(desk) if line["event"] == "clock"] == []


def test_session_that_is_over_stays_so_though_the_clock_is_set_back(desk: Desk) -> None:
    ended = desk.join(expires=NOW + 600)
    desk.now = NOW + 601
    desk.rest()
    assert desk.proxy.refused == [ended.id]
    desk.set_back(600)
    desk.proxy.admitted.clear()
    desk.proxy.pids = [9]
    desk.rest()
    found = desk.store.get(ended.id)
    assert found is not None and found.state(desk.now) == "expired"
    assert desk.proxy.admitted == []


def test_what_the_clock_jumped_over_is_over_also_when_it_is_set_right(desk: Desk) -> None:
    # The one by its end, the other as nobody renewed it in that hour.
    for letter, seconds in (("A", 1800), ("B", 36_000)):
        desk.join(letter, expires=NOW + seconds)
    desk.store.add(session(id="C" * 24, ticket_expires=NOW + 600), ticket_hash("C"))
    desk.rest()
    desk.set_back(-3600)
    desk.rest()
    assert desk.proxy.refused == ["A" * 24, "B" * 24]
    desk.set_back(3600)
    desk.proxy.admitted.clear()
    desk.proxy.pids = [9]
    desk.rest()
    assert desk.proxy.admitted == []
    later = desk.join("D")
    assert desk.proxy.admitted == [later.id]


def test_link_that_the_clock_jumped_over_has_expired(desk: Desk) -> None:
    desk.store.add(session(ticket_expires=NOW + 600), ticket_hash("A"))
    desk.rest()
    desk.set_back(-3600)
    with pytest.raises(GatewayError, match="this link has expired"):
        asyncio.run(desk.sessions.redeem("A", "192.0.2.1"))


def lines(desk: Desk) -> list[dict[str, Any]]:
    """The gateway's audit."""
    return [json.loads(line) for line in desk.audit.read_text().splitlines()]


def test_programs_that_ended_lately_are_listed_for_their_desktop_and_nobody_else(desk: Desk) -> None:
    places = desk.sessions.settings.program_places
    assert {desktop: ended[2] for desktop, ended in desk.sessions.ended().items()} == {
        desktop: [] for desktop in places
    }
    desktop = next(iter(places))
    program = {"mode": "agent", "desktop": desktop}
    desk.join("A", **program)
    desk.join("B", **program, expires=NOW + 60)
    desk.join("C", **program)
    desk.join("D", desktop=desktop)
    desk.store.add(session(id="E" * 24, **program), ticket_hash("E"))
    asyncio.run(desk.sessions.revoke(None, None, True, "tester"))
    assert {letter[0] for letter in desk.sessions.ended()[desktop][2]} == {"A", "B", "C"}
    assert desk.sessions.ended()[desktop][:2] == places[desktop]
    desk.now += TELL_SECONDS
    assert desk.sessions.ended()[desktop][2] == []


def test_program_whose_time_is_over_is_listed_the_last_first_and_before_its_sockets_are_closed(desk: Desk) -> None:
    desktop = next(iter(desk.sessions.settings.program_places))
    desk.join("A", mode="agent", desktop=desktop, expires=NOW + 60)
    desk.join("B", mode="agent", desktop=desktop, expires=NOW + 61)
    desk.join("C", mode="agent", desktop=desktop)
    seen: list[list[str]] = []
    line = NoLine()
    line.ended_changed = lambda: seen.append(desk.sessions.ended()[desktop][2])  # type: ignore[method-assign]
    desk.sessions.streams.line = line
    desk.rest()
    assert seen == []
    desk.now += 61
    desk.proxy.deaf = True
    desk.rest()
    assert seen == [["B" * 24, "A" * 24]]


def test_list_is_no_longer_than_its_host_believes_and_forgets_what_ended_before_a_day(desk: Desk) -> None:
    with desk.store.whole():
        for number in range(MOST_SESSIONS + 2):
            desk.store.add(session(id=f"{number:024}", issued=NOW + number), ticket_hash(str(number)))
    listed = asyncio.run(desk.sessions.listing())
    assert len(question.read_sessions("lab", listed)) == MOST_SESSIONS < question.MOST_ROWS
    assert listed[0]["id"] == f"{MOST_SESSIONS + 1:024}"
    desk.now += 600 + KEEP_SECONDS
    assert asyncio.run(desk.sessions.listing()) == []
    assert desk.store.get(listed[0]["id"]) is not None


def test_disk_without_room_keeps_no_sockets_open_where_nobody_can_be_told(desk: Desk) -> None:
    def full() -> None:
        raise GatewayError("disk", None, "is full", "make room")

    desktop = next(iter(desk.sessions.settings.program_places))
    desk.join("A", mode="agent", desktop=desktop)
    line = NoLine()
    line.ended_changed = full  # type: ignore[method-assign]
    desk.sessions.streams.line = line
    asyncio.run(desk.sessions.revoke("A" * 24, None, False, "tester"))
    assert desk.proxy.refused == ["A" * 24]
