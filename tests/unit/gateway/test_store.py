"""Tickets open once, whoever asks and however many at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deskyard.gateway.session.store import Session, Store, ticket_hash

NOW = 1_800_000_000.0


def session(id: str = "A" * 24, **changes: object) -> Session:
    values: dict[str, object] = {
        "id": id,
        "desktop": "d1",
        "routes": ("desktop", "terminal"),
        "mode": "drive",
        "actor": "tester",
        "issued": NOW,
        "expires": NOW + 3600,
        "ticket_expires": NOW + 600,
        **changes,
    }
    return Session(**values)  # type: ignore[arg-type]


def test_one_of_a_hundred_at_once_wins(tmp_path: Path) -> None:
    store = Store(tmp_path / "sessions.db")
    hashed = ticket_hash("ticket")
    store.add(session(), hashed)
    with ThreadPoolExecutor(100) as pool:
        results = list(pool.map(lambda n: store.redeem(hashed, f"10.0.0.{n}", NOW + 1), range(100)))
    winners = [result for result in results if result is not None]
    assert len(winners) == 1
    kept = store.get("A" * 24)
    assert kept is not None
    assert kept.address == winners[0].address


def test_ticket_ends_when_its_time_is_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "sessions.db")
    store.add(session(), ticket_hash("ticket"))
    assert store.redeem(ticket_hash("ticket"), "", NOW + 600) is None
    assert store.redeem(ticket_hash("ticket"), "", NOW + 599) is not None


def test_revoked_ticket_opens_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "sessions.db")
    store.add(session(), ticket_hash("ticket"))
    assert [ended.id for ended in store.revoke(["A" * 24], NOW + 1)] == ["A" * 24]
    assert store.revoke(["A" * 24], NOW + 2) == []
    assert store.redeem(ticket_hash("ticket"), "", NOW + 3) is None


def test_ticket_itself_is_not_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = Store(path)
    store.add(session(), ticket_hash("a-very-secret-ticket"))
    assert b"a-very-secret-ticket" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_states_follow_the_life_of_a_session(tmp_path: Path) -> None:
    granted = session()
    assert granted.state(NOW + 1) == "granted"
    assert granted.state(NOW + 601) == "lapsed"
    assert session(redeemed=NOW + 5).state(NOW + 601) == "active"
    assert session(redeemed=NOW + 5).state(NOW + 3600) == "expired"
    assert session(redeemed=NOW + 5, revoked=NOW + 9).state(NOW + 3700) == "revoked"


def test_ended_sessions_wait_until_their_sockets_are_closed(tmp_path: Path) -> None:
    store = Store(tmp_path / "sessions.db")
    store.add(session(), ticket_hash("ticket"))
    store.redeem(ticket_hash("ticket"), "", NOW + 1)
    assert store.to_close(NOW + 2) == []
    assert [ended.id for ended in store.to_close(NOW + 3600)] == ["A" * 24]
    assert [ended.id for ended in store.to_close(NOW + 3600, ["B" * 24, "A" * 24])] == ["A" * 24]
    assert store.to_close(NOW + 3600, ["B" * 24]) == store.to_close(NOW + 3600, []) == []
    store.close("A" * 24, NOW + 3601)
    assert store.to_close(NOW + 3602) == []


def test_what_ended_long_ago_is_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path / "sessions.db")
    store.add(session(), ticket_hash("ticket"))
    store.forget_old(NOW + 29 * 24 * 3600)
    assert len(store.all()) == 1
    store.forget_old(NOW + 31 * 24 * 3600)
    assert store.all() == []


def test_list_has_what_lives_and_what_ended_lately_and_rather_what_lives(tmp_path: Path) -> None:
    store, now = Store(tmp_path / "sessions.db"), NOW + 1000
    letters = iter("LROGAB")

    def add(at: float, redeemed: bool = True, **changes: object) -> str:
        letter = next(letters)
        store.add(session(id=letter * 24, issued=at, **changes), ticket_hash(letter))
        if redeemed:
            store.redeem(ticket_hash(letter), "192.0.2.1", at, at + 10_000)
        return letter * 24

    lapsed = add(NOW + 1, redeemed=False, ticket_expires=NOW + 400)
    revoked = add(NOW + 2)
    old = add(NOW + 3, expires=NOW + 300)
    granted = add(NOW + 4, redeemed=False, ticket_expires=now + 100)
    alive = add(NOW + 5)
    expired = add(NOW + 6, expires=NOW + 500)
    store.revoke([revoked], NOW + 450)
    listed = [found.id for found in store.recent(NOW + 300, now, 9)]
    assert (listed, old in listed) == ([expired, alive, granted, revoked, lapsed], False)
    assert [found.id for found in store.recent(NOW + 300, now, 3)] == [expired, alive, granted]
    assert [found.id for found in store.recent(NOW + 300, now, 2)] == [alive, granted]
    assert [found.id for found in store.recent(NOW + 400, now, 9)] == [expired, alive, granted, revoked]


def test_reader_cannot_write(tmp_path: Path) -> None:
    Store(tmp_path / "sessions.db").add(session(expires=time.time() + 60), ticket_hash("ticket"))
    reader = Store(tmp_path / "sessions.db", read_only=True)
    assert len(reader.all()) == 1
    try:
        reader.revoke(["A" * 24], time.time())
    except Exception as error:
        assert "readonly" in str(error)
    else:
        raise AssertionError("a reader changed the database")
