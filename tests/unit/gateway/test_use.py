"""What HAProxy's workers say of programs' use is read whole or not at all."""

import asyncio

from deskyard.gateway.actions import use
from deskyard.gateway.actions.table import KEEP_SECONDS, TABLE
from tests.unit.gateway.test_store import session

FIRST, SECOND = "A" * 24, "B" * 24


def row(id: str, left: int, open_now: int, shard: str = "") -> str:
    return f"0x55ed28f47578: key={id} use=1 exp={left} {shard}conn_cur={open_now}\n"


class Workers:
    """Workers by their process ids, and the rows that each has; None of one that does not answer."""

    def __init__(self, *tables: str | None) -> None:
        self.tables = dict(enumerate(tables))

    async def workers(self) -> list[int]:
        return list(self.tables)

    async def rows(self, pid: int, table: str) -> str | None:
        assert table == TABLE
        return self.tables[pid]


def look(*tables: str | None) -> dict[str, float] | None:
    return asyncio.run(use.look(Workers(*tables)))


def test_last_use_by_any_worker_counts_and_what_is_open_is_use_now() -> None:
    past = (KEEP_SECONDS - 40) * 1000
    older, newer = row(FIRST, past - 20_000, 0) + row(SECOND, past, 1), row(FIRST, past, 0, "shard=0 ")
    assert look(older, newer) == look(newer, older) == {FIRST: 40, SECOND: 0}


def test_nothing_is_known_if_one_worker_does_not_answer_or_none_is_there() -> None:
    assert look(row(FIRST, 5, 0), None) is None
    assert look() is None
    assert look(row(FIRST, 5, 0) + row(SECOND, 5, 0).replace("conn_cur", "open")) is None
    assert look("# table: uses_of_session, type: string, size:20480, used:0\n\n") == {}


def test_what_is_not_known_is_use_by_whoever_may_work_and_whose_session_lasts() -> None:
    working, looking = session(id=FIRST, scopes=("act", "see")), session(id=SECOND, scopes=("see",))
    assert use.of(working, None, active=True) == 0
    assert use.of(working, None, active=False) is use.of(looking, None, active=True) is None
    assert (use.of(working, {FIRST: 7.9}, active=False), use.of(working, {SECOND: 1}, active=True)) == (7, None)
