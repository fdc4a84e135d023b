"""The chain of actions without a gateway: lines of the log, shares, batches, and the audit that holds its end."""

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.actions.ledger import BYTES, LINES, MANY, PERIOD_SECONDS, SESSIONS, Ledger
from deskyard.gateway.actions.line import facts, read
from deskyard.gateway.session import audit_check
from deskyard.gateway.session.audit import Audit, events, files, head_file
from deskyard.wire import actions

SESSION = "S" * 24
DIGEST = "ab" * 32


def logged(number: int = 1, session: str = SESSION, claims: str = "-", status: int = 200, path: str = "/v1/act") -> str:
    """A line as HAProxy writes it."""
    return (
        f"192.0.2.7:4711 pid=12 method=POST path=/d/d1/computer{path} status={status} state=-- session={session}"
        f" server={session} check=streams ms=+12 action=1795658845058/{number}/act,see/7/{DIGEST} claims={claims}\n"
    )


class Book:
    """A ledger with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.audit_file, self.file = folder / "audit.jsonl", folder / "actions.jsonl"
        self.now = 0.0
        self.ledger = self.opened()

    def opened(self) -> Ledger:
        """As after a restart."""
        audit, chain = Audit(self.audit_file), Audit(self.file)
        return Ledger(chain, audit, lambda id: f"actor of {id[0]}", lambda: self.now)

    def hear(self, *lines: str) -> None:
        for line in lines:
            self.ledger.datagram_received(line.encode(), None)

    def period(self) -> None:
        self.now += PERIOD_SECONDS
        self.ledger.write()

    def kinds(self) -> list[str]:
        return [event["event"] for event in events(self.file)]

    def check(self) -> dict[str, Any]:
        return audit_check.verify_both(self.audit_file, self.file)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_session_whose_desktop_did_not_answer_what_wakes_it_is_told_and_no_other(tmp_path: Path) -> None:
    sessions: list[str] = []
    audit, chain = Audit(tmp_path / "audit.jsonl"), Audit(tmp_path / "actions.jsonl")
    ledger = Ledger(chain, audit, lambda _: None, unanswered=sessions.append)
    waking = logged(1, status=503).replace("check=streams", "check=waking")
    off = waking.replace("state=--", "state=SC")
    for line in (logged(1, status=503), waking, off.replace("status=503", "status=200"), off):
        ledger.datagram_received(line.encode(), None)
    assert sessions == [SESSION]


def test_a_line_of_the_log_is_read_whole() -> None:
    found = read(logged(3).strip())
    assert found is not None
    assert facts(found) == {
        "session": SESSION, "desktop": "d1", "route": "computer", "scopes": ["act", "see"], "address": "192.0.2.7",
        "at": "2026-11-26T02:07:25.058+00:00", "number": 3, "method": "POST", "path": "/v1/act", "status": 200,
        "ms": 12, "bytes": 7, "body": DIGEST, "claimed": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "",
        logged().strip() + " more",
        logged(path="/v1/a b").strip(),
        logged(session="short").strip(),
        logged(claims='x"').strip(),
        logged().replace("/computer/", "/vnc/").strip(),
        logged().replace("action=1795658845058/1", "action=-").strip(),
    ],
)
def test_another_line_is_none(line: str) -> None:
    assert read(line) is None


def test_a_session_above_its_share_is_counted_by_the_minute(book: Book) -> None:
    book.hear(*(logged(number, status=403 if number > LINES + 3 else 200) for number in range(1, LINES + 6)))
    book.hear(logged(1, "T" * 24))
    book.period()
    assert book.kinds() == ["action"] * (LINES + 1) + ["counted"]
    counted = events(book.file)[-1]
    assert {name: counted[name] for name in ("session", "desktop", "actor", "requests", "failed", "first", "last")} == {
        "session": SESSION, "desktop": "d1", "actor": "actor of S", "requests": 5, "failed": 2,
        "first": LINES + 1, "last": LINES + 5,
    }  # fmt: skip
    book.hear(logged(LINES + 6))
    book.ledger.write()
    assert book.kinds()[-1] == "action", "a new minute, a new share"


def test_claims_that_fill_the_share_are_counted_too(book: Book) -> None:
    claims = actions.pack([{"kind": "click", "class": "w" * 64, "text_sha256": DIGEST}] * 100)
    book.hear(*(logged(number, claims=claims) for number in range(1, LINES + 1)))
    book.period()
    assert book.kinds().count("action") < LINES / 2
    assert book.kinds()[-1] == "counted"
    assert book.file.stat().st_size < BYTES * 1.5


def test_sessions_without_number_share_a_share(book: Book) -> None:
    book.hear(*(logged(1, f"s{number:023d}") for number in range(SESSIONS)))
    book.hear(*(logged(1, f"t{number:023d}") for number in range(LINES + 2)))
    book.period()
    assert events(book.file)[-1]["session"] == MANY and events(book.file)[-1]["requests"] == 2
    assert book.kinds().count("action") == SESSIONS + LINES


def test_a_batch_waits_for_the_disk_once(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr("os.fdatasync", waits.append)
    book.hear(*(logged(number) for number in range(1, 51)))
    book.ledger.write()
    assert (len(waits), len(book.kinds())) == (1, 50)
    book.ledger.write()
    assert len(waits) == 1, "nothing to write"


def test_the_audit_takes_down_the_end_of_the_chain_once_a_minute_and_only_when_it_moved(book: Book) -> None:
    book.hear(logged())
    book.ledger.write()
    assert events(book.audit_file) == []
    book.period()
    book.period()
    [anchor] = events(book.audit_file)
    assert (anchor["event"], anchor["last"]) == ("actions", 1)
    assert anchor["head"] == events(book.file)[0]["hash"]
    assert book.check()["ok"]


def test_actions_made_anew_as_a_whole_differ_from_what_the_audit_took_down(book: Book) -> None:
    book.hear(logged(1), logged(2))
    book.period()
    for file in (*files(book.file), head_file(book.file)):
        file.unlink()
    forged = Audit(book.file)
    forged.note_all([("action", {"session": SESSION})] * 2)
    checked = book.check()
    assert not checked["ok"]
    assert [problem["problem"] for problem in checked["problems"]] == ["line 2 is not the one that was taken down"]


def test_actions_that_are_gone_are_missed(book: Book) -> None:
    book.hear(logged(1))
    book.period()
    for file in (*files(book.file), head_file(book.file)):
        file.unlink()
    assert not book.check()["ok"]


def test_a_gateway_without_actions_is_whole(tmp_path: Path) -> None:
    Audit(tmp_path / "audit.jsonl").note("grant")
    checked = audit_check.verify_both(tmp_path / "audit.jsonl", tmp_path / "actions.jsonl")
    assert (checked["ok"], checked["actions"]) == (True, None)


@pytest.mark.parametrize("kept", range(0, 400, 23))
def test_a_batch_that_was_cut_off_anywhere_leaves_a_good_chain(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "actions.jsonl"
    chain = Audit(path)
    chain.note("action", number=1)
    size, head = path.stat().st_size, head_file(path).read_bytes()
    chain.note_all([("action", {"number": number}) for number in (2, 3, 4)])
    # The power went while the batch was written: its head is not there, nor is all of it.
    path.write_bytes(path.read_bytes()[: size + kept])
    head_file(path).write_bytes(head)
    Audit(path).note("action", number=5)
    assert audit_check.verify(path)["ok"]
    numbers = [event["number"] for event in events(path) if event["event"] == "action"]
    assert numbers == [1, *(2, 3, 4)[: len(numbers) - 2], 5]


def test_a_new_chain_whose_first_batch_was_cut_off_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "actions.jsonl"
    chain = Audit(path)
    head = head_file(path).read_bytes()
    chain.note_all([("action", {"number": number}) for number in (1, 2)])
    head_file(path).write_bytes(head)
    Audit(path).note("action", number=3)
    assert audit_check.verify(path)["ok"] and len(events(path)) == 3


def test_a_full_disk_drops_actions_and_says_how_many(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Audit, "_append", _no_room)
        book.hear(logged(1), logged(2))
        book.ledger.write()
    book.hear(logged(3))
    book.ledger.write()
    [missed, after] = events(book.file)
    assert (missed["reason"], after["number"]) == ("2 lines could not be written", 3)
    assert book.check()["ok"]


def _no_room(self: Audit, data: bytes) -> None:
    raise OSError(28, "No space left on device")


def test_a_hundred_actions_fit_and_more_are_counted() -> None:
    clicks = [
        {"kind": "click", "at": [[n, n, "screen"]], "window": 41, "class": "XTerm", "ok": True} for n in range(100)
    ]
    said = actions.unpack(actions.pack(clicks, {"frame_before": DIGEST}))
    assert said == {"actions": clicks, "frame_before": DIGEST}
    texts = [{"kind": "type", "text_sha256": hashed(n), "command_sha256": hashed(-n)} for n in range(1, 101)]
    said = actions.unpack(actions.pack(texts))
    assert said and said["actions"] == texts[: len(said["actions"])]
    assert 0 < len(said["actions"]) == 100 - said["more"] < 100


def hashed(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": 7},
        {"kind": ""},
        {"window": True},
        {"window": 1 << 40},
        {"window": float("nan")},
        {"at": [[float("inf"), 1, "screen"]]},
        {"at": [[1, 2]]},
        {"at": "screen"},
        {"ok": 1},
        {"text_sha256": DIGEST.upper()},
        {"text_sha256": DIGEST + "\n"},
        {"title": "secret"},
    ],
    ids=str,
)
def test_what_is_no_number_hash_or_word_is_left_out(wrong: dict[str, Any]) -> None:
    said = json.dumps({"actions": [{"ok": True, **wrong}, 5]}).encode()
    text = base64.urlsafe_b64encode(zlib.compress(said)).decode().rstrip("=")
    assert actions.unpack(text) == {"actions": [{} if "ok" in wrong else {"ok": True}]}
