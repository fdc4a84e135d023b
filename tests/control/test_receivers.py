"""A receiver of alerts that is slow, or takes nothing, holds up no other, and is named."""

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import Link
from deskyard.control.store.pool import Lend, pool
from deskyard.control.watch import lanes as lanes_module
from deskyard.control.watch import mail, webhooks
from deskyard.control.watch.lanes import Lanes
from deskyard.control.watch.mail import Mailer, MailServer
from deskyard.control.watch.webhooks import NOBODY, Reach
from tests.control.lab import WAIT_SECONDS, Lab
from tests.control.watching import deliver_next, look, opened

LOOPBACK = Reach(["127.0.0.0/8"])
BYTE_SECONDS = 0.05
# What begins as what is waited for does, and never comes to its end.
BEGINS = {
    "http": b"HTTP/1.1 200 OK\r\nX-Slow: ",
    "https": b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03",
    "mailto": b"220-slow",
}


@contextmanager
def serving(answer: Callable[[socket.socket], None], port: int = 0) -> Iterator[int]:
    """The port of somebody who does this with each connection; all have ended in the end."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        threads: list[threading.Thread] = []

        def run(link: socket.socket) -> None:
            with link:
                answer(link)

        def accept() -> None:
            while True:
                try:
                    link = listener.accept()[0]
                except OSError:
                    return
                threads.append(threading.Thread(target=run, args=(link,)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(WAIT_SECONDS)
                assert not thread.is_alive()


@contextmanager
def lending(mission: Lab) -> Iterator[Lend]:
    """Connections for the threads of lanes."""
    with pool(mission.url(WORKER)) as found:
        yield found.connection


def answers(status: int) -> Callable[[socket.socket], None]:
    def answer(link: socket.socket) -> None:
        link.recv(65536)
        link.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())

    return answer


def receives(mission: Lab, url: str, messages: int = 1) -> str:
    """A receiver to whom so many messages are due."""
    id = f"wh_{secrets.token_hex(4)}"
    mission.link.execute("insert into webhook (id, url, actor) values (%s, %s, 'x')", [id, url])
    mission.link.execute("insert into webhook_secret (webhook_id, secret) values (%s, %s)", [id, b"x" * 32])
    for number in range(messages):
        query = "insert into delivery (id, webhook_id, kind, payload) values (%s, %s, 'webhook.test', '{}')"
        mission.link.execute(query, [f"{number} of {id}", id])
    return id


def delivery(mission: Lab, hook: str, number: int = 0) -> dict[str, Any]:
    row = mission.link.execute("select * from delivery where id = %s", [f"{number} of {hook}"]).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("kind", BEGINS)
def test_who_sends_a_byte_now_and_then_is_left_when_the_time_of_the_whole_is_over(
    mission: Lab, worker: Link, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (webhooks, mail):
        # Never is a single byte waited for so long.
        monkeypatch.setattr(module, "SECONDS", WAIT_SECONDS)
        monkeypatch.setattr(module, "WHOLE_SECONDS", 10 * BYTE_SECONDS)
    ended = threading.Event()

    def trickle(link: socket.socket) -> None:
        try:
            link.sendall(BEGINS[kind])
            while not ended.wait(BYTE_SECONDS):
                link.sendall(b"a")
        except OSError:
            ended.set()

    with serving(trickle) as port:
        url = "mailto:ann@example.org" if kind == "mailto" else f"{kind}://127.0.0.1:{port}/hook"
        server, file = MailServer("127.0.0.1", "deskyard@example.org", tls=mail.NONE, port=port), tmp_path / "mail"
        server.save(file)
        hook = receives(mission, url)
        assert deliver_next(worker, LOOPBACK, Mailer(file))
        # It is closed, not only left.
        assert ended.wait(WAIT_SECONDS)
    found = delivery(mission, hook)
    assert (found["state"], found["answer"]) == ("waiting", "took longer than 0.5 seconds")


def test_a_receiver_that_does_not_answer_holds_up_no_other(mission: Lab, worker: Link) -> None:
    released, heard, mailed = threading.Event(), threading.Event(), threading.Event()

    class Deaf(Mailer):
        def send(self, url: str, rows: Any) -> str:
            mailed.set()
            assert released.wait(WAIT_SECONDS)
            raise TimeoutError("timed out")

    def silent(link: socket.socket) -> None:
        assert released.wait(WAIT_SECONDS)

    def hears(link: socket.socket) -> None:
        answers(200)(link)
        heard.set()

    with serving(silent) as deaf, serving(hears) as good:
        first = receives(mission, f"http://127.0.0.1:{deaf}/hook")
        ann = receives(mission, "mailto:ann@example.org")
        receives(mission, "mailto:ben@example.org")
        other = receives(mission, f"http://127.0.0.1:{good}/hook")
        try:
            with lending(mission) as lend:
                lanes = Lanes(lend, LOOPBACK, Deaf())
                lanes.begin(worker)
                assert heard.wait(WAIT_SECONDS) and mailed.wait(WAIT_SECONDS)
                # Who is told now has one lane, and all mail has one.
                assert len(lanes._going) == 3
                begun = dict(lanes._going)
                begun[other].join(WAIT_SECONDS)
                lanes.begin(worker)
                assert lanes._going == {lane: thread for lane, thread in begun.items() if lane != other}
                assert (delivery(mission, other)["state"], delivery(mission, first)["answer"]) == ("delivered", "")
                released.set()
                for thread in begun.values():
                    thread.join(WAIT_SECONDS)
                    assert not thread.is_alive()
        finally:
            released.set()
    assert delivery(mission, ann)["answer"] == "timed out"


def test_more_receivers_than_lanes_are_told_one_after_the_other_those_that_waited_longest_first(
    mission: Lab, worker: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "MOST", 2)
    monkeypatch.setattr(lanes_module, "MOST_TRIES", 1)
    with serving(answers(200)) as port, lending(mission) as lend:
        lanes, hooks = Lanes(lend, LOOPBACK, NOBODY), []
        for number in range(3):
            hooks.append(receives(mission, f"http://127.0.0.1:{port}/{number}", messages=2))
            ago = "update delivery set next_at = now() - make_interval(secs => %s) where webhook_id = %s"
            mission.link.execute(ago, [100 - number, hooks[-1]])
        rounds = []
        for _ in range(3):
            lanes.begin(worker)
            rounds.append(set(lanes._going))
            for thread in lanes._going.values():
                thread.join(WAIT_SECONDS)
    assert rounds == [{*hooks[:2]}, {*hooks[:2]}, {hooks[2]}]
    assert delivery(mission, hooks[2])["state"] == "delivered"


def test_a_name_that_can_be_none_is_answered_as_any_other_that_is_not_found(mission: Lab, worker: Link) -> None:
    hook = receives(mission, f"https://{'a' * 64}.example/hook")
    assert deliver_next(worker, LOOPBACK)
    found = delivery(mission, hook)
    assert (found["attempt"], found["state"]) == (1, "waiting") and "label" in found["answer"]


@pytest.mark.parametrize(("slow", "tries"), [(0.0, [1, 0, 0]), (WAIT_SECONDS, [1, 1, 1])])
def test_who_takes_long_to_refuse_is_tried_once_and_who_refuses_at_once_each_time(
    mission: Lab, worker: Link, monkeypatch: pytest.MonkeyPatch, slow: float, tries: list[int]
) -> None:
    monkeypatch.setattr(webhooks, "SLOW_SECONDS", slow)
    with serving(answers(503)) as port:
        hook = receives(mission, f"http://127.0.0.1:{port}/hook", messages=3)
        while deliver_next(worker, LOOPBACK):
            pass
    assert [delivery(mission, hook, number)["attempt"] for number in range(3)] == tries


def test_a_receiver_that_takes_nothing_for_an_hour_is_named_until_it_takes_something(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    statuses = [503]

    def answer(link: socket.socket) -> None:
        answers(statuses[0])(link)

    def later(minutes: int) -> None:
        query = "update delivery set created_at = created_at - make_interval(mins => %s), next_at = now()"
        mission.link.execute(query, [minutes])

    with serving(answer) as port:
        hook = receives(mission, f"http://127.0.0.1:{port}/a-secret-path")
        later(59)
        assert deliver_next(worker, LOOPBACK)
        look(worker)
        assert opened(owner) == {}
        later(2)
        look(worker)
        (alert,) = opened(owner).values()
        assert (alert["rule"], alert["object"], alert["number"]) == ("webhook.failing", hook, 61)
        assert alert["text"].startswith("127.0.0.1: took none of 1 messages since")
        assert "secret" not in alert["text"] and "remove it" in alert["nextStep"]
        statuses[0] = 204
        while deliver_next(worker, LOOPBACK):
            pass
        look(worker)
        assert opened(owner) == {}


def test_what_nobody_took_is_counted_once_for_each_receiver_however_much_it_is(mission: Lab, worker: Link) -> None:
    for url in ("https://first.test/hook", "https://second.test/hook"):
        hook = receives(mission, url)
        mission.link.execute(
            """insert into delivery (id, webhook_id, kind, payload, attempt, answer)
            select %s || n, %s, 'webhook.test', '{}', 1, '503' from generate_series(1, 2000) n""",
            [hook, hook],
        )
    mission.link.execute("analyze delivery")
    assert [found.number for found in webhooks.failing(worker)] == [0, 0]
    row = mission.link.execute(f"explain (analyze, format json) {webhooks.FAILING}".encode()).fetchone()
    assert row is not None
    loops = [node["Actual Loops"] for node in nodes(row["QUERY PLAN"][0]["Plan"])]
    assert max(loops) <= 2, row


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


@pytest.fixture
def silent() -> Iterator[tuple[list[str], int]]:
    """Addresses, and a port of all of them, where nobody ever answers who wants to connect."""
    with ExitStack() as held:
        addresses, port = [f"127.0.0.{number}" for number in range(2, 8)], 0
        for address in addresses:
            listener = held.enter_context(socket.socket())
            listener.bind((address, port))
            listener.listen(0)
            port = listener.getsockname()[1]
            # The place of the one who may wait is taken: the kernel leaves out what others send.
            held.enter_context(socket.create_connection((address, port)))
        yield addresses, port


def resolves(monkeypatch: pytest.MonkeyPatch, addresses: list[str], seconds: float = 0) -> None:
    """Have each name of `.test` stand for these addresses, said after so many seconds."""
    real = socket.getaddrinfo

    def found(name: str, port: Any, *more: Any, **named: Any) -> Any:
        if not name.endswith(".test"):
            return real(name, port, *more, **named)
        threading.Event().wait(seconds)
        return [info for address in addresses for info in real(address, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_a_mail_server_with_many_silent_addresses_has_no_more_time_than_another(
    mission: Lab, worker: Link, silent: tuple[list[str], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    addresses, port = silent
    monkeypatch.setattr(mail, "SECONDS", 0.5)
    monkeypatch.setattr(mail, "WHOLE_SECONDS", 1.2)
    MailServer("mail.test", "deskyard@example.org", tls=mail.NONE, port=port).save(tmp_path / "mail")
    hook = receives(mission, "mailto:ann@example.org")
    tried: list[str] = []
    connect = socket.create_connection

    def noted(place: tuple[str, int], timeout: float) -> socket.socket:
        tried.append(place[0])
        return connect(place, timeout)

    with monkeypatch.context() as patch:
        resolves(patch, addresses)
        patch.setattr(socket, "create_connection", noted)
        assert deliver_next(worker, LOOPBACK, Mailer(tmp_path / "mail"))
    assert delivery(mission, hook)["answer"] == "took longer than 1.2 seconds"
    assert tried == addresses[:3]


def test_a_mail_server_is_reached_behind_an_address_that_is_silent(
    silent: tuple[list[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses, port = silent
    monkeypatch.setattr(mail, "SECONDS", 0.2)

    def greets(link: socket.socket) -> None:
        link.sendall(b"220 here\r\n")
        while line := link.recv(1000):
            link.sendall(b"221 bye\r\n" if line.startswith(b"QUIT") else b"250 fine\r\n")

    with serving(greets, port) as port, monkeypatch.context() as patch:
        resolves(patch, [*addresses[:2], "127.0.0.1"])
        MailServer("mail.test", "deskyard@example.org", tls=mail.NONE, port=port).probe()


@pytest.mark.parametrize("kind", ["http", "mailto"])
def test_a_name_that_is_found_too_late_is_not_connected_to(
    mission: Lab, worker: Link, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (webhooks, mail):
        monkeypatch.setattr(module, "WHOLE_SECONDS", 0.2)
    MailServer("mail.test", "deskyard@example.org", tls=mail.NONE, port=25).save(tmp_path / "mail")
    hook = receives(mission, "mailto:ann@example.org" if kind == "mailto" else "http://hook.test/hook")
    with monkeypatch.context() as patch:
        resolves(patch, ["127.0.0.1"], 0.3)
        patch.setattr(socket, "create_connection", lambda *_: pytest.fail("it was connected to"))
        assert deliver_next(worker, LOOPBACK, Mailer(tmp_path / "mail"))
    assert delivery(mission, hook)["answer"] == "took longer than 0.2 seconds"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no JSON, s3cret", "JSONDecodeError"),
        ('["s3cret"]', "TypeError"),
        ('{"host": "mail.test", "sender": "a@b.org", "secret": "s3cret"}', "TypeError"),
        (f'{{"host": "{"a" * 64}.test", "sender": "a@b.org"}}', "UnicodeError"),
    ],
    ids=["text", "list", "stranger", "host"],
)
def test_a_mail_server_that_can_be_none_is_answered_and_the_lane_goes_on(
    mission: Lab, worker: Link, tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "mail").write_text(text)
    hooks = [receives(mission, f"mailto:{name}@example.org") for name in ("ann", "bob")]
    assert deliver_next(worker, LOOPBACK, Mailer(tmp_path / "mail"))
    tried = [delivery(mission, hook) for hook in hooks]
    assert sorted(row["attempt"] for row in tried) == [0, 1]
    (answer,) = (row["answer"] for row in tried if row["attempt"])
    assert f"is wrong ({error}): declare it anew: ./inv control.mail" in answer
    assert "s3cret" not in answer
    # It is tried again after its pause, and the others after theirs.
    assert not deliver_next(worker, LOOPBACK, Mailer(tmp_path / "mail"))
