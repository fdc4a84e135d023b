"""A receiver of alerts that is slow, or takes nothing, holds up no other, and is named."""

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
def serving(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of somebody who does this with each connection; all have ended in the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
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
