"""Tickets by the clock, and a connection that nobody answers: refused in time, and still to be decided."""

import asyncio
import json
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask import first_bytes
from deskyard.gateway.egress.ask.first_bytes import Peer
from deskyard.gateway.egress.ask.hold import Hold
from deskyard.gateway.egress.ask.tickets import (
    ONCE_SECONDS,
    OPEN_SECONDS,
    REFUSED_SECONDS,
    TICKETS_PER_DESKTOP,
    UNUSED_SECONDS,
    Book,
    Ticket,
    TooMany,
)
from deskyard.gateway.machine.layout import Layout
from tests.gateway.egress_guest import client_hello
from tests.support.clock import Clock
from tests.unit.gateway.support import parsed

D1, GATEWAY = "10.80.1.10", "10.80.1.1"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> Book:
    return Book(tmp_path / "tickets.json", clock)


def meet(book: Book, name: str = "api.test", port: int = 443) -> Ticket:
    return book.meet("d1", D1, name, port)


def test_answer_lasts_no_longer_because_the_clock_was_set_back(tmp_path: Path, clock: Clock) -> None:
    real = Clock()
    book = Book(tmp_path / "tickets.json", clock, real)
    open_one, allowed = meet(book, "open.test"), meet(book)
    book.decide(allowed.id, "for", 900, "ada", "")
    for seconds, state in ((-3600, "allowed"), (850, "allowed"), (-3600, "allowed"), (51, "over")):
        # Set back within a moment, else as time goes.
        clock.now += seconds
        real.now += max(seconds, 0)
        book.now()
        (found,) = book.of("d1", "api.test")
        assert found.state(book.now()) == state, seconds
    (waiting,) = book.of("d1", "open.test")
    assert waiting.until - book.now() == OPEN_SECONDS - 901
    again = {ticket.id: ticket for ticket in Book(tmp_path / "tickets.json", clock, real).all()}
    assert again[allowed.id].state(clock()) == "over" and again[open_one.id].until == waiting.until


def test_tries_for_the_same_name_and_port_share_a_ticket(book: Book) -> None:
    first, again, other_port = meet(book), meet(book), meet(book, port=80)
    assert (again.id, again.tries) == (first.id, 2)
    assert other_port.id != first.id
    assert book.meet("d2", "10.80.1.11", "api.test", 443).id not in (first.id, other_port.id)


@pytest.mark.parametrize(
    ("verdict", "seconds", "lasts", "state"),
    [
        ("once", None, UNUSED_SECONDS, "allowed"),
        ("for", 900, 900, "allowed"),
        ("refuse", None, REFUSED_SECONDS, "refused"),
    ],
)
def test_an_answer_ends_by_itself_and_the_next_try_asks_anew(
    book: Book, clock: Clock, verdict: str, seconds: int | None, lasts: int, state: str
) -> None:
    ticket = meet(book)
    assert book.decide(ticket.id, verdict, seconds, "ann", "because").state(clock.now) == state
    clock.now += lasts - 1
    assert meet(book).state(clock.now) == state
    clock.now += 2
    assert (meet(book).id == ticket.id, meet(book).state(clock.now)) == (False, "waiting")


def test_always_has_no_end_and_can_be_taken_back(book: Book, clock: Clock) -> None:
    ticket = meet(book)
    book.decide(ticket.id, "always", None, "ann", "")
    clock.now += 400 * 86_400
    assert meet(book).state(clock.now) == "allowed"
    assert book.decide(ticket.id, "refuse", None, "bob", "enough").state(clock.now) == "refused"


def test_a_ticket_can_be_answered_for_a_day(book: Book, clock: Clock) -> None:
    ticket = meet(book)
    clock.now += OPEN_SECONDS - 1
    book.answerable(ticket.id)
    clock.now += 2
    with pytest.raises(GatewayError, match="is lapsed"):
        book.decide(ticket.id, "always", None, "ann", "")


@pytest.mark.parametrize(
    ("verdict", "seconds", "reason", "wrong"),
    [
        ("maybe", None, "", "answer"),
        ("for", None, "", "for"),
        ("for", 90_000, "", "for"),
        ("refuse", None, "", "reason"),
    ],
)
def test_what_is_no_answer_changes_nothing(
    book: Book, clock: Clock, verdict: str, seconds: int | None, reason: str, wrong: str
) -> None:
    ticket = meet(book)
    with pytest.raises(GatewayError) as refused:
        book.decide(ticket.id, verdict, seconds, "ann", reason)
    assert refused.value.field == wrong
    assert meet(book).state(clock.now) == "waiting"


def test_a_desktop_has_a_bounded_number_of_open_tickets_and_takes_no_other_desktops(book: Book) -> None:
    for number in range(TICKETS_PER_DESKTOP):
        meet(book, f"n{number}.test")
    with pytest.raises(TooMany):
        meet(book, "too-many.test")
    assert meet(book, "n0.test").tries == 2
    assert book.meet("d2", "10.80.1.11", "other.test", 443).tries == 1


def test_tickets_and_answers_outlive_the_process(book: Book, clock: Clock, tmp_path: Path) -> None:
    ticket = meet(book)
    book.decide(ticket.id, "once", None, "ann", "")
    book.use(Book(tmp_path / "tickets.json", clock).answerable(ticket.id))
    (kept,) = Book(tmp_path / "tickets.json", clock).all()
    assert kept.state(clock.now) == "used"
    assert kept.ends(clock.now) == ONCE_SECONDS


@pytest.fixture
def layout() -> Iterator[Layout]:
    # A socket's path may have 107 bytes: the folder of a test with a long name has more.
    with tempfile.TemporaryDirectory(prefix="deskyard-ask.") as folder:
        yield _layout(Path(folder))


def _layout(folder: Path) -> Layout:
    """A gateway's places, without a router: what is held here is never to be released."""
    layout = Layout(root=folder, hold_seconds=0.2)
    layout.hold_socket.parent.mkdir(parents=True)
    settings = parsed("locked")
    layout.settings_file.parent.mkdir(parents=True)
    layout.settings_file.write_text(
        replace(settings, egress_rules=replace(settings.egress_rules, ask=("api.test",))).as_json()
    )
    return layout


async def request(layout: Layout, address: str, text: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(layout.hold_socket))
    writer.write(Peer(address, 4000, GATEWAY, 80).header("ignored.test") + text)
    answer = await reader.read()
    writer.close()
    return answer


def test_without_an_answer_in_time_it_is_refused_and_the_ticket_can_still_be_decided(layout: Layout) -> None:
    async def scenario() -> tuple[bytes, Book]:
        book = Book(layout.tickets_file)
        async with await Hold(layout, book).serve():
            answer = await request(layout, D1, b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
        return answer, book

    answer, book = asyncio.run(scenario())
    assert answer.startswith(b"HTTP/1.1 403 Forbidden")
    assert b"nobody answered in time; the ticket stays open" in answer
    (ticket,) = book.all()
    book.decide(ticket.id, "once", None, "ann", "")
    (stored,) = json.loads(layout.tickets_file.read_text())
    assert stored["answer"]["actor"] == "ann"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("10.80.1.99", b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"),  # nobody's address
        (D1, b"GET / HTTP/1.1\r\nHost: api.test\r\nHost: other.test\r\n\r\n"),
        (D1, b"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"),
        (D1, b"GET / HTTP/1.1\r\n\r\n"),
    ],
)
def test_what_the_router_would_not_send_raises_no_ticket(layout: Layout, address: str, text: bytes) -> None:
    async def scenario() -> tuple[bytes, Book]:
        book = Book(layout.tickets_file)
        async with await Hold(layout, book).serve():
            return await request(layout, address, text), book

    answer, book = asyncio.run(scenario())
    assert (answer, book.all()) == (b"", [])


@pytest.mark.parametrize("cut", range(0, 70, 7))
def test_a_hello_that_is_cut_off_has_no_name(cut: int) -> None:
    record = client_hello(b"api.test")[5:]
    assert first_bytes.server_name(record) == "api.test"
    with pytest.raises((IndexError, struct.error)):
        first_bytes.server_name(record[: len(record) - 9 - cut])
