"""Alerts by mail: whom, what, once, encrypted or not at all. Witness: aiosmtpd, and Python's reader of mails."""

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from invoke import Context, Exit

from deskyard.control.control import Control
from deskyard.control.ground.folder import Folder
from deskyard.control.store.cluster import OWNER
from deskyard.control.store.connection import Link, connect
from deskyard.control.watch.mail import Mailer, MailServer, kept, message
from deskyard.control.watch.webhooks import Reach
from deskyard.errors import ConfigError
from deskyard.tasks import control as tasks
from tests.control.lab import Lab
from tests.control.mail_receiver import PASSWORD, SENDER, USER, MailReceiver
from tests.control.watching import deliver_next, look

ANN, ORIGIN = "ann@example.org", "https://mission.example.org"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[MailReceiver]:
    with MailReceiver(tmp_path) as found:
        yield found


@pytest.fixture
def host(mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Control]:
    """The host of a Mission Control that runs, with a folder of its own for the declared server."""
    monkeypatch.setattr(Control, "_database", lambda _: connect(mission.url(OWNER)))
    yield Control(Folder(tmp_path))
    mission.link.execute("truncate mail_server")


def mailer(host: Control) -> Mailer:
    return Mailer(host.folder.mail, ORIGIN)


def deliver(worker: Link, host: Control) -> None:
    while deliver_next(worker, Reach(), mailer(host)):
        pass


def recipient(owner: httpx.Client, address: str = ANN) -> str:
    made = owner.post("/api/webhooks", json={"url": f"mailto:{address}"})
    assert made.status_code == 201, made.text
    assert made.json()["secret"] == ""
    return str(made.json()["id"])


def deliveries(owner: httpx.Client, id: str) -> list[tuple[str, int, str]]:
    found = owner.get(f"/api/webhooks/{id}/deliveries").json()["items"]
    return [(each["state"], each["attempt"], each["answer"]) for each in found]


def due(mission: Lab) -> None:
    mission.link.execute("update delivery set next_at = now()")


def test_an_alert_is_mailed_when_it_opens_and_when_it_is_over(
    mission: Lab, owner: httpx.Client, worker: Link, host: Control, receiver: MailReceiver
) -> None:
    host.declare_mail(receiver.declared())
    id = recipient(owner)
    mission.declare("lab", "first", state="error")
    look(worker)
    deliver(worker, host)
    mission.link.execute("update desktop set state = 'ready'")
    look(worker)
    deliver(worker, host)
    opened, closed = receiver.taken
    assert (opened.sender, opened.recipients, opened.encrypted, opened.account) == (SENDER, [ANN], True, USER)
    assert opened.mail["Subject"] == "[Deskyard] A desktop is broken: lab.first"
    assert (opened.mail["From"], opened.mail["To"], opened.mail["Auto-Submitted"]) == (SENDER, ANN, "auto-generated")
    text = opened.mail.get_content()
    for part in ("is in state error", "desktop.broken", "-> ./inv desktop.health", f"{ORIGIN}/alerts"):
        assert part in text
    assert closed.mail["Subject"] == "[Deskyard] over: A desktop is broken: lab.first"
    assert "->" not in closed.mail.get_content()
    assert [state for state, _, _ in deliveries(owner, id)] == ["delivered"] * 2


def test_alerts_of_the_same_moment_are_a_single_mail_for_each_who_is_told(
    mission: Lab, owner: httpx.Client, worker: Link, host: Control, receiver: MailReceiver
) -> None:
    host.declare_mail(receiver.declared())
    ids = [recipient(owner), recipient(owner, "bob@example.org")]
    mission.declare("lab", *(f"d{number}" for number in range(7)), state="error")
    look(worker)
    deliver(worker, host)
    assert sorted(taken.recipients for taken in receiver.taken) == [[ANN], ["bob@example.org"]]
    for taken in receiver.taken:
        assert taken.mail["Subject"].startswith("[Deskyard] 7 alerts: A desktop is broken: lab.d")
        assert all(f"lab.d{number}" in taken.mail.get_content() for number in range(7))
    assert [len(deliveries(owner, id)) for id in ids] == [7, 7]


def test_mail_that_was_not_taken_is_sent_again_as_the_same(
    mission: Lab, owner: httpx.Client, worker: Link, host: Control, receiver: MailReceiver
) -> None:
    host.declare_mail(receiver.declared())
    id = recipient(owner)
    receiver.answers = ["451 busy for now", "250 OK"]
    sent: list[str] = []
    for state, answer in (("waiting", "451 busy for now"), ("delivered", "taken by localhost")):
        assert owner.post(f"/api/webhooks/{id}/test").status_code == 202 if not sent else True
        assert deliver_next(worker, Reach(), mailer(host))
        assert not deliver_next(worker, Reach(), mailer(host)), "not at once again"
        sent.append(state)
        assert deliveries(owner, id) == [(state, len(sent), answer)]
        due(mission)
    (taken,) = receiver.taken
    assert taken.mail["Subject"].startswith("[Deskyard] a test, wanted by key:")
    row = mission.link.execute("select * from delivery").fetchone()
    assert row is not None
    assert message([row], SENDER, ANN, ORIGIN)["Message-ID"] == taken.mail["Message-ID"]


def test_nobody_is_to_be_mailed_before_a_server_is_declared_and_nobody_is_afterwards(
    owner: httpx.Client, worker: Link, host: Control, receiver: MailReceiver
) -> None:
    answer = owner.post("/api/webhooks", json={"url": f"mailto:{ANN}"})
    assert (answer.status_code, answer.json()["field"]) == (409, "url")
    assert "./inv control.mail" in answer.json()["remedy"]
    host.declare_mail(receiver.declared())
    id = recipient(owner)
    owner.post(f"/api/webhooks/{id}/test")
    assert host.withdraw_mail() and not host.withdraw_mail()
    assert (owner.get("/api/webhooks").json()["items"], host.mail_server()) == ([], None)
    deliver(worker, host)
    assert receiver.taken == []


def test_server_whose_file_is_gone_is_said_and_the_mail_waits(
    owner: httpx.Client, worker: Link, host: Control, receiver: MailReceiver
) -> None:
    host.declare_mail(receiver.declared())
    id = recipient(owner)
    owner.post(f"/api/webhooks/{id}/test")
    host.folder.mail.unlink()
    deliver(worker, host)
    ((state, attempt, answer),) = deliveries(owner, id)
    assert (state, attempt) == ("waiting", 1) and "no mail server is declared" in answer


@pytest.mark.parametrize(
    "url",
    [
        *("mailto:", "mailto:ann", "mailto:ann@example", "mailto:a@b.org,c@d.org", "mailto:ann@example.org?subject=x"),
        *("mailto:ann@example.org\r\nRCPT TO:<eve@example.org>", "mailto:Ann <ann@example.org>", "MAILTO:ann@x.org"),
    ],
    ids=ascii,
)
def test_what_is_no_single_address_is_refused(
    owner: httpx.Client, host: Control, receiver: MailReceiver, url: str
) -> None:
    host.declare_mail(receiver.declared())
    answer = owner.post("/api/webhooks", json={"url": url})
    assert (answer.status_code, answer.json()["field"]) == (422, "url") and answer.json()["remedy"]
    assert owner.get("/api/webhooks").json()["items"] == []


def test_what_machines_say_makes_no_headers_and_no_lines(
    mission: Lab, owner: httpx.Client, worker: Link, host: Control, receiver: MailReceiver
) -> None:
    host.declare_mail(receiver.declared())
    recipient(owner)
    mission.declare("lab", "first", state="error")
    mission.link.execute(
        "update desktop set detail = %s", ["x\r\nBcc: eve@example.org\r\n\r\n\x1b[2J\u202e" + "y" * 999]
    )
    look(worker)
    deliver(worker, host)
    (taken,) = receiver.taken
    assert taken.recipients == [ANN] and taken.mail["Bcc"] is None
    text = taken.mail.get_content()
    assert all(line.isprintable() for line in text.splitlines())
    assert "\nBcc" not in text and len(text) < 1000


def test_nothing_is_sent_in_plain_text(host: Control, tmp_path: Path) -> None:
    with MailReceiver(tmp_path, starttls=False) as receiver:
        with pytest.raises(ConfigError, match="STARTTLS"):
            host.declare_mail(receiver.declared())
        assert receiver.heard == [], "the password was never said"
    assert host.mail_server() is None


def test_server_that_proves_nothing_is_not_trusted(host: Control, receiver: MailReceiver) -> None:
    with pytest.raises(ConfigError, match="certificate"):
        host.declare_mail(receiver.declared(authorities=""))
    with pytest.raises(ConfigError, match="certificate"):
        host.declare_mail(receiver.declared(host="127.0.0.1"))
    assert receiver.heard == [] and host.mail_server() is None


def test_account_that_is_not_let_in_is_not_kept_and_the_server_of_before_stays(
    mission: Lab, host: Control, receiver: MailReceiver
) -> None:
    host.declare_mail(receiver.declared())
    with pytest.raises(ConfigError) as caught:
        host.declare_mail(receiver.declared(password="wrong", sender="other@example.org"))
    assert "535" in caught.value.reason and "wrong" not in str(caught.value)
    assert kept(host.folder.mail) == receiver.declared().checked()
    assert mission.link.execute("select sender from mail_server").fetchall() == [{"sender": SENDER}]


def test_server_whose_name_can_be_none_is_not_kept(host: Control) -> None:
    with pytest.raises(ConfigError, match=r"does not let us in: .*label empty or too long"):
        host.declare_mail(MailServer(f"{'a' * 64}.example.org", SENDER))
    assert host.mail_server() is None


def test_password_is_for_root_alone_and_is_never_shown(host: Control, receiver: MailReceiver) -> None:
    made = host.declare_mail(receiver.declared())
    assert (made["password"], host.folder.mail.stat().st_mode & 0o777) == (True, 0o600)
    assert PASSWORD not in json.dumps([made, host.mail_server()]) + repr(receiver.declared())


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"host": "smtp example"}, "server"),
        ({"sender": "nobody"}, "--sender"),
        ({"tls": "maybe"}, "--tls"),
        ({"tls": "none", "host": "smtp.example.org"}, "--tls"),
        ({"port": 65536}, "--port"),
        ({"authorities": "no certificate"}, "--authority"),
    ],
)
def test_server_that_cannot_be_is_refused_before_anybody_is_asked(wrong: dict[str, Any], field: str) -> None:
    good = MailServer("smtp.example.org", SENDER)
    assert good.checked().port == 587
    with pytest.raises(ConfigError) as caught:
        replace(good, **wrong).checked()
    assert caught.value.field == field and caught.value.remedy


def test_task_takes_the_password_by_standard_input_alone(
    host: Control, receiver: MailReceiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tasks, "Control", lambda: host, raising=False)
    monkeypatch.setattr("deskyard.control.control.Control", lambda: host)
    authority = str(receiver.folder / "mail.pem")
    options = {"sender": SENDER, "user": USER, "port": receiver.port, "authority": authority}
    tasks.mail(Context())
    assert "no mail server is declared" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO("wrong\n"))
    with pytest.raises(Exit):
        tasks.mail(Context(), "localhost", **options)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
    tasks.mail(Context(), "localhost", **options)
    said = capsys.readouterr()
    assert f"Alerts are mailed from {SENDER} by localhost:{receiver.port} (starttls) as {USER}" in said.out
    assert PASSWORD not in said.out + said.err
    tasks.mail(Context(), remove=True, yes=True, json=True)
    assert json.loads(capsys.readouterr().out) == {"removed": True}
