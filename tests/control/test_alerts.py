"""Alerts: opened by rules, one for each rule and object, closed by themselves, told to webhooks that can check them."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from deskyard.control.jobs.observer import write_silence
from deskyard.control.recorder.chain import START, line_hash
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import Link, connect
from deskyard.control.watch import alerts, audited, webhooks
from deskyard.control.watch.budgets import Spent
from deskyard.control.watch.mail import Mailer
from deskyard.control.watch.rules import Eye
from deskyard.control.watch.webhooks import Reach
from deskyard.errors import ConfigError
from deskyard.host.deadline import Deadline
from tests.control.lab import Lab
from tests.control.watching import deliver_next, look, opened

LOOPBACK = Reach(["127.0.0.0/8"])


def no_budget() -> Spent:
    pytest.fail("no budget is there")


def test_each_rule_finds_what_it_is_for_and_its_alert_closes_when_that_is_gone(
    mission: Lab, owner: httpx.Client, worker: Link, tmp_path: Path
) -> None:
    mission.declare("lab", "broken", "slow", "fine")
    look(worker)
    assert opened(owner) == {}
    run = mission.link.execute
    run("update desktop set state = 'error', detail = 'QEMU ended' where name = 'broken'")
    run("update desktop set state = 'booting', state_at = now() - interval '16 minutes' where name = 'slow'")
    run("""update workspace set problem = '{"field": "network", "reason": "is taken"}'""")
    write_silence(worker, "lab", "no route")
    run("update workspace set silent_since = now() - interval '6 minutes'")
    run("""insert into operation (id, kind, workspace_id, desktop_id, actor, state, problem)
        values ('op_x', 'desktop.start', 'lab', 'lab.broken', 'x', 'failed', '{"reason": "no room"}')""")
    run("insert into budget values ('lab', 100, 'x')")
    run("insert into tier_price values ('free', 3600, '2020-01-01', 'x')")
    run(
        "insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at) values"
        " ('lab.old', 'lab', 'free', now() - interval '1 second', now() + interval '95 seconds')"
    )
    certificate = tmp_path / "mission.pem"
    certificate.write_text("")
    look(worker, certificate)
    found = opened(owner)
    assert set(found) >= {
        "desktop.broken lab.broken",
        "desktop.not-ready lab.slow",
        "workspace.broken lab",
        "gateway.silent lab",
        "operation.failed desktop.start lab.broken",
        "certificate.ending mission-control",
    }
    assert found["desktop.not-ready lab.slow"]["number"] == 16
    assert "no room" in found["operation.failed desktop.start lab.broken"]["text"]
    assert all(alert["nextStep"] and alert["title"] for alert in found.values())
    run("update desktop set state = 'ready'")
    run("update workspace set problem = null")
    write_silence(worker, "lab", "")
    run("""insert into operation (id, kind, workspace_id, desktop_id, actor, state)
        values ('op_y', 'desktop.start', 'lab', 'lab.broken', 'x', 'done')""")
    run("truncate budget")
    look(worker, certificate, days=100)
    assert opened(owner) == {}
    closed = owner.get("/api/alerts?open=false").json()
    assert {alert["id"] for alert in found.values()} == {alert["id"] for alert in closed["items"]}


def test_a_budget_is_told_at_eighty_and_at_a_hundred_percent(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    mission.declare("lab", "first", state="stopped")
    answer = owner.put("/api/budgets/lab", json={"microsPerMonth": 1000})
    assert answer.json()["items"][0]["microsPerMonth"] == 1000
    first = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    mission.link.execute("insert into tier_price values ('free', 3600, %s, 'x')", [first - timedelta(days=1)])
    for seconds, kinds in ((799, set()), (1, {"budget.near lab"}), (200, {"budget.near lab", "budget.spent lab"})):
        query = """insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at)
            values ('lab.first', 'lab', 'free', %s, %s)"""
        # One millionth a second.
        mission.link.execute(query, [first, first + timedelta(seconds=seconds)])
        look(worker)
        assert set(opened(owner)) == kinds
    assert owner.get("/api/budgets").json()["items"][0]["spent"] == 1000
    owner.put("/api/budgets/lab", json={"microsPerMonth": None})
    look(worker)
    assert opened(owner) == {}


def test_an_audit_that_was_changed_is_told(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    mission.declare("lab", "first")
    operation = owner.post("/api/desktops/lab.first/restart").json()["id"]
    mission.until("select 1 from audit_entry where detail ->> 'operation' = %s", [operation])
    try:
        mission.link.execute("update audit_entry set actor = 'somebody'")
        look(worker)
        before = opened(owner)["audit.broken audit"]
        assert "was changed" in before["text"]
        # One that has only begun to watch knows nothing of it yet, and closes nothing.
        alerts.settle(worker, Eye(None, lambda _: datetime.now(UTC)).look(worker, no_budget))
        assert opened(owner)["audit.broken audit"] == before
    finally:
        mission.link.execute("truncate audit_entry")


def test_new_lines_of_the_audit_are_checked_behind_those_that_are_known_and_all_once_a_day(
    mission: Lab, worker: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audited, "NEW_SECONDS", 0.0)
    found, before = audited.Audited(), START
    query = "insert into audit_entry values (%s, now(), 'x', 'x', 'x', '{}', '')"
    lines = "select * from audit_entry where number = %s"
    change = "update audit_entry set actor = %s where number = %s"

    def write(number: int, before: bytes) -> bytes:
        mission.link.execute(query, [number])
        row = mission.link.execute(lines, [number]).fetchone()
        assert row is not None
        hash = line_hash(before, row)
        mission.link.execute("update audit_entry set hash = %s where number = %s", [hash, number])
        return hash

    def problem() -> str | None:
        found.look(worker)
        return found.problem

    mission.link.execute("truncate audit_entry")
    try:
        for number in (1, 2):
            before = write(number, before)
        assert problem() is None
        mission.link.execute(change, ["y", 1])
        before = write(3, before)
        assert problem() is None, "only what is new is looked at"
        mission.link.execute(change, ["y", 3])
        # It is known by now; its hash is the same.
        assert problem() is None
        write(4, before)
        mission.link.execute(change, ["y", 4])
        assert problem() == "line 4 was changed"
        # Of one that is not whole all is looked at again.
        assert problem() == "line 1 was changed"
        mission.link.execute(change, ["x", 1])
        assert problem() == "line 3 was changed"
        mission.link.execute("delete from audit_entry where number > 2")
        assert problem() is None
        mission.link.execute("delete from audit_entry where number = 2")
        assert problem() == "line 2 is missing"
        mission.link.execute("delete from audit_entry")
        assert problem() is None
        before = write(1, START)
        assert problem() is None
        mission.link.execute(change, ["y", 1])
        assert problem() is None
        monkeypatch.setattr(found, "_whole", Deadline(0))
        assert problem() == "line 1 was changed"
    finally:
        mission.link.execute("truncate audit_entry")


def test_a_backup_that_is_missing_is_told_until_there_is_one(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    query = "insert into audit_entry values (%s, now() - make_interval(days => %s), 'x', %s, 'x', '{}', '')"
    try:
        mission.link.execute("truncate audit_entry")
        lines = ((6, "x", False), (8, "x", True), (1, "control.backup", False))
        for number, (days, action, missing) in enumerate(lines):
            mission.link.execute(query, [number, days, action])
            look(worker)
            assert ("backup.missing mission-control" in opened(owner)) == missing
    finally:
        mission.link.execute("truncate audit_entry")


def test_the_same_is_open_once_however_often_and_by_however_many_it_is_seen(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first", state="error")
    findings = Eye(None, lambda _: datetime.now(UTC)).look(worker, no_budget)

    def settle() -> None:
        with connect(mission.url(WORKER)) as link:
            alerts.settle(link, findings)

    threads = [threading.Thread(target=settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert owner.get("/api/alerts").json()["total"] == 1


def test_a_rule_that_is_out_of_force_or_has_another_number_finds_otherwise(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    mission.link.execute("update desktop set state = 'booting', state_at = now() - interval '20 minutes'")

    def rule(enabled: bool, number: int) -> None:
        body = {"rules": [{"kind": "desktop.not-ready", "enabled": enabled, "number": number}]}
        assert owner.put("/api/alert-rules", json=body).status_code == 200
        look(worker)

    try:
        for enabled, number, count in ((True, 15, 1), (True, 30, 0), (True, 15, 1), (False, 15, 0)):
            rule(enabled, number)
            assert len(opened(owner)) == count
        unknown = {"rules": [{"kind": "weather", "enabled": True, "number": 1}]}
        assert owner.put("/api/alert-rules", json=unknown).status_code == 404
    finally:
        rule(True, 15)


def test_an_alert_is_acknowledged_and_silenced_within_what_one_may(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first", state="error")
    look(worker)
    (alert,) = opened(owner).values()
    done = owner.post(f"/api/alerts/{alert['id']}/acknowledge").json()
    assert done["acknowledgedBy"].startswith("key:") and done["closedAt"] is None
    until = datetime.now(UTC) + timedelta(hours=1)
    for wrong in (until + timedelta(days=9999), until.replace(tzinfo=None)):
        answer = owner.post(f"/api/alerts/{alert['id']}/silence", json={"until": wrong.isoformat()})
        assert answer.status_code == 422
    owner.post(f"/api/alerts/{alert['id']}/silence", json={"until": until.isoformat()})
    mission.link.execute("update desktop set state = 'ready'")
    look(worker)
    mission.link.execute("update desktop set state = 'error'")
    look(worker)
    (again,) = opened(owner).values()
    assert again["id"] != alert["id"] and again["acknowledgedAt"] is None
    assert datetime.fromisoformat(again["silencedUntil"]) == until
    with mission.client(mission.key("read", "desktops:write", workspaces=["other"])) as stranger:
        assert stranger.get("/api/alerts").json()["items"] == []
        assert stranger.post(f"/api/alerts/{again['id']}/acknowledge").status_code == 404
    with mission.client(mission.key("read")) as viewer:
        assert viewer.post(f"/api/alerts/{again['id']}/acknowledge").status_code == 403


class Receiver:
    """Somebody who is told; `answers` are the statuses in order, the last of them for ever."""

    def __init__(self) -> None:
        self.answers, self.heard = [200], list[tuple[dict[str, str], bytes]]()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
                answers = receiver.answers
                self.send_response(answers.pop(0) if len(answers) > 1 else answers[0])
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?a=1"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


# Nobody listens on that port.
NOBODY_THERE = "http://127.0.0.1:1/hook"


def due(mission: Lab) -> None:
    mission.link.execute("update delivery set next_at = now()")


def test_an_alert_is_told_when_it_opens_and_closes_and_its_receiver_can_check_it(
    mission: Lab, owner: httpx.Client, worker: Link, receiver: Receiver
) -> None:
    made = owner.post("/api/webhooks", json={"url": receiver.url}).json()
    assert "secret" not in owner.get("/api/webhooks").text
    mission.declare("lab", "first", state="error")
    look(worker)
    look(worker)
    mission.link.execute("update desktop set state = 'ready'")
    look(worker)
    while deliver_next(worker, LOOPBACK):
        pass
    assert [json.loads(body)["type"] for _, body in receiver.heard] == ["alert.opened", "alert.closed"]
    secret = base64.b64decode(made["secret"].removeprefix("whsec_"))
    for headers, body in receiver.heard:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"
    data = json.loads(receiver.heard[0][1])["data"]
    assert (data["rule"], data["object"]) == ("desktop.broken", "lab.first")


def test_signatures_are_those_of_standard_webhooks() -> None:
    # The published vector of its specification, on which its libraries are tested.
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = webhooks.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_is_tried_again_until_it_is_taken_with_the_same_id_also_by_another_process(
    mission: Lab, owner: httpx.Client, worker: Link, receiver: Receiver
) -> None:
    hook = owner.post("/api/webhooks", json={"url": receiver.url}).json()["id"]
    receiver.answers = [500, 302, 200]
    assert owner.post(f"/api/webhooks/{hook}/test").status_code == 202
    for tried, state in ((1, "waiting"), (2, "waiting"), (3, "delivered")):
        with connect(mission.url(WORKER)) as another:
            assert deliver_next(another, LOOPBACK)
            # Not at once again.
            assert not deliver_next(another, LOOPBACK)
        (found,) = owner.get(f"/api/webhooks/{hook}/deliveries").json()["items"]
        assert (found["attempt"], found["state"]) == (tried, state)
        due(mission)
    assert not deliver_next(worker, LOOPBACK)
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 1 and len(receiver.heard) == 3


def test_a_message_whose_sender_was_killed_is_sent_again(
    mission: Lab, owner: httpx.Client, worker: Link, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = owner.post("/api/webhooks", json={"url": receiver.url}).json()["id"]
    owner.post(f"/api/webhooks/{hook}/test")

    def killed(*_: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(webhooks, "_send", killed)
        deliver_next(worker, LOOPBACK)
    due(mission)
    assert deliver_next(worker, LOOPBACK) and len(receiver.heard) == 1


def test_a_place_where_nobody_takes_anything_is_tried_once_and_then_others_are_told(
    mission: Lab, owner: httpx.Client, worker: Link, receiver: Receiver
) -> None:
    deaf, hook = (owner.post("/api/webhooks", json={"url": url}).json()["id"] for url in (NOBODY_THERE, receiver.url))
    for each in (deaf, deaf, deaf, hook):
        owner.post(f"/api/webhooks/{each}/test")
    while deliver_next(worker, LOOPBACK):
        pass
    assert len(receiver.heard) == 1
    tried = owner.get(f"/api/webhooks/{deaf}/deliveries").json()["items"]
    assert sorted(row["attempt"] for row in tried) == [0, 0, 1]
    query = "select count(*) as later from delivery where attempt = 0 and next_at > now() + interval '30 seconds'"
    assert mission.until(query, [])["later"] == 2


def test_while_the_server_of_all_mail_is_deaf_it_is_tried_once_and_then_others_are_told(
    mission: Lab, worker: Link, receiver: Receiver
) -> None:
    class Deaf(Mailer):
        def send(self, url: str, rows: Any) -> str:
            tried.append(url)
            raise TimeoutError("timed out")

    tried: list[str] = []
    for url in ("mailto:ada@example.org", "mailto:ben@example.org", receiver.url):
        mission.link.execute("insert into webhook (id, url, actor) values (%s, %s, 'x')", [url, url])
        mission.link.execute("insert into webhook_secret (webhook_id, secret) values (%s, %s)", [url, b"x" * 32])
        query = "insert into delivery (id, webhook_id, kind, payload) values (%s, %s, 'webhook.test', '{}')"
        mission.link.execute(query, [f"of {url}", url])
    while deliver_next(worker, LOOPBACK, Deaf()):
        pass
    assert (len(tried), len(receiver.heard)) == (1, 1)


def test_whoever_takes_nothing_is_given_up_and_whoever_is_gone_is_told_no_more(
    mission: Lab, owner: httpx.Client, worker: Link, receiver: Receiver
) -> None:
    hook = owner.post("/api/webhooks", json={"url": receiver.url}).json()["id"]
    receiver.answers = [500]
    owner.post(f"/api/webhooks/{hook}/test")
    while deliver_next(worker, LOOPBACK):
        due(mission)
    (found,) = owner.get(f"/api/webhooks/{hook}/deliveries").json()["items"]
    assert (found["state"], found["attempt"], found["answer"]) == ("failed", 1 + len(webhooks.PAUSES), "500")
    receiver.answers = [410]
    owner.post(f"/api/webhooks/{hook}/test")
    deliver_next(worker, LOOPBACK)
    assert owner.get("/api/webhooks").json()["items"] == []
    assert owner.post(f"/api/webhooks/{hook}/test").status_code == 404


@pytest.mark.parametrize(
    "url",
    [
        *("https://127.0.0.1/", "https://[::1]/", "https://10.1.2.3/", "https://169.254.169.254/", "https://0.0.0.0/"),
        *("https://[::ffff:127.0.0.1]/", "https://100.64.1.1/", "https://localhost/", "http://1.1.1.1/"),
    ],
)
def test_nobody_inside_is_told_anything_unless_the_operator_allows_it(url: str) -> None:
    with pytest.raises(ConfigError, match="inside this machine"):
        Reach().address(urlsplit(url))


def test_a_public_address_is_told_by_https_and_an_allowed_one_as_it_is() -> None:
    assert Reach().address(urlsplit("https://1.1.1.1/hook")) == "1.1.1.1"
    assert Reach(["10.0.0.0/8"]).address(urlsplit("http://10.1.2.3/hook")) == "10.1.2.3"


def test_a_silenced_or_unreachable_one_says_so(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    hook = owner.post("/api/webhooks", json={"url": "https://127.0.0.1:1/"}).json()["id"]
    owner.post(f"/api/webhooks/{hook}/test")
    assert deliver_next(worker, Reach())
    (found,) = owner.get(f"/api/webhooks/{hook}/deliveries").json()["items"]
    assert found["state"] == "waiting" and "inside this machine" in found["answer"]


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "https://me:secret@a.example/", "https:///x", "https://a.example/ b"]
)
def test_what_is_no_address_of_a_webhook_is_refused_and_not_repeated(
    mission: Lab, owner: httpx.Client, url: str
) -> None:
    answer = owner.post("/api/webhooks", json={"url": url})
    assert (answer.status_code, answer.json()["field"]) == (422, "url") and "secret" not in answer.text


def test_metrics_are_those_that_prometheus_reads(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    mission.declare("lab", "first", state="error")
    look(worker)
    answer = owner.get("/api/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'deskyard_desktops{workspace="lab",state="error"} 1' in answer.text
    assert 'deskyard_alerts{rule="desktop.broken"} 1' in answer.text
    with mission.client(mission.key("read")) as client:
        assert client.get("/api/metrics").status_code == 403
