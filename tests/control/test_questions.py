"""What agents ask by themselves: told as it comes, answered once, and refused where nobody answers."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from deskyard.control.questions import asked
from deskyard.control.questions.asked import Questions
from tests.control.lab import Lab
from tests.control.test_chat import answer, scripted

OPTIONS = [{"id": "yes", "name": "Yes", "kind": "allow_once"}, {"id": "no", "name": "No", "kind": "reject_once"}]
ASKED = {"id": "q1", "asked": "Run ls", "options": OPTIONS}


@pytest.fixture
def lab(mission: Lab) -> Iterator[Lab]:
    mission.declare("lab", "first")
    yield mission


def sent(owner: httpx.Client, **more: Any) -> dict[str, Any]:
    body = {"message": scripted("look", {"question": {**ASKED, **more}})}
    found: dict[str, Any] = owner.post("/api/desktops/lab.first/chat", json=body).json()
    return found


def opened(lab: Lab, owner: httpx.Client, turn: dict[str, Any]) -> str:
    """Where the question of a turn is answered, once it is open."""
    lab.until("select 1 from message where operation_id = %s and questions <> '[]'", [turn["operationId"]])
    return f"/api/conversations/{turn['conversationId']}/messages/{answer(owner, turn)['id']}/questions/q1/answer"


def test_a_question_is_answered_once_by_one_of_its_options_and_the_agent_hears_it(
    lab: Lab, owner: httpx.Client
) -> None:
    turn = sent(owner)
    path = opened(lab, owner, turn)
    (shown,) = answer(owner, turn)["questions"]
    assert (shown["asked"], shown["options"], shown["strength"], shown["state"]) == (
        *("Run ls", OPTIONS, "courtesy", "open"),
    )
    assert owner.post(path, json={"option": "maybe"}).status_code == 422
    assert owner.post(path.replace("q1", "q2"), json={"option": "yes"}).status_code == 404
    with lab.client(lab.key("read", "desktops:write")) as reader:
        assert reader.post(path, json={"option": "no"}).status_code == 403
    with lab.client(lab.key("chat", workspaces=["other"])) as stranger:
        assert stranger.post(path, json={"option": "no"}).status_code == 404
    given = owner.post(path, json={"option": "yes"})
    assert (given.status_code, given.json()["state"], given.json()["option"]) == (200, "answered", "yes")
    who = given.json()["answeredBy"]
    with lab.client(lab.key("chat")) as other:
        late = other.post(path, json={"option": "no"})
    assert (late.status_code, late.json()["reason"]) == (409, f"was answered by {who}: yes")
    lab.state(turn["operationId"], "done")
    found = answer(owner, turn)
    assert found["text"] == "chosen: yes. I heard: look"
    (shown,) = found["questions"]
    assert (shown["state"], shown["answeredBy"], shown["heard"]) == ("answered", who, True)
    # Sent again, it is the same answer.
    assert owner.post(path, json={"option": "yes"}).status_code == 200
    lab.until("select 1 from audit_entry where action = 'question.answer' and detail ->> 'option' = 'yes'", [])


def test_what_nobody_answers_in_time_is_refused_and_said_so(lab: Lab, owner: httpx.Client) -> None:
    turn = sent(owner, seconds=0.1)
    path = opened(lab, owner, turn)
    lab.state(turn["operationId"], "done")
    found = answer(owner, turn)
    assert (found["text"], found["questions"][0]["state"]) == ("chosen: None. I heard: look", "lapsed")
    late = owner.post(path, json={"option": "yes"})
    assert (late.status_code, "refused" in late.json()["reason"]) == (409, True)
    assert lab.link.execute("select 1 from question_answer").fetchall() == []


def test_an_interrupt_while_a_question_is_open_ends_the_turn(lab: Lab, owner: httpx.Client) -> None:
    turn = sent(owner)
    path = opened(lab, owner, turn)
    owner.post(f"/api/conversations/{turn['conversationId']}/interrupt")
    lab.state(turn["operationId"], "cancelled")
    assert [shown["state"] for shown in answer(owner, turn)["questions"]] == ["lapsed"]
    assert owner.post(path, json={"option": "yes"}).status_code == 409


def test_a_worker_that_dies_while_a_question_is_open_leaves_it_refused(lab: Lab, owner: httpx.Client) -> None:
    turn = sent(owner)
    opened(lab, owner, turn)
    lab.end("worker")
    lab.worker()
    # Another delivers the message anew; the question of before is open no more.
    found = lab.until(
        "select questions, state from message where operation_id = %s and state = 'interrupted'", [turn["operationId"]]
    )
    assert len(found["questions"]) == 1
    owner.post(f"/api/conversations/{turn['conversationId']}/interrupt")
    lab.state(turn["operationId"], "cancelled")


def test_what_is_asked_beyond_the_bounds_is_refused_at_once() -> None:
    questions = Questions()
    questions.hear(ASKED)
    for bad in (ASKED, {**ASKED, "id": "q2"}, {**ASKED, "id": "../x"}, {}):
        questions.hear(bad)
    assert [refused["id"] for refused in questions.refusals()] == ["q1", "q2", "../x", "None"]
    assert (questions.refusals(), len(questions.cards)) == ([], 1)
    many = Questions()
    options = [{"id": f"o{number}\x1b" if number == 0 else f"o{number}", "name": "x" * 999} for number in range(99)]
    many.hear({"id": "q1", "asked": "x" * 999, "options": options, "seconds": 10**9})
    (card,) = many.cards
    assert (len(card["asked"]), [option["id"] for option in card["options"]][:2]) == (asked.MOST_ASKED, ["o1", "o2"])
    assert len(card["options"]) < asked.MOST_OPTIONS + 1 and len(card["options"][0]["name"]) == asked.MOST_NAME


@pytest.mark.parametrize("options", [None, [], "yes", [5, {"id": 5}, {"id": " "}, {"id": "\u202eyes", "name": "Yes"}]])
def test_what_nobody_could_answer_is_said_and_refused_at_once(options: Any) -> None:
    questions = Questions()
    questions.hear({"id": "q1", "asked": "Run\x1b[2J ls", "options": options})
    (card,) = questions.cards
    assert (card["asked"], card["state"], questions.open) == ("Run\ufffd[2J ls", "lapsed", None)
    assert questions.refusals() == [{"id": "q1", "option": None}]


def test_an_option_is_shown_once_with_a_name_and_only_what_was_offered_counts() -> None:
    questions = Questions()
    questions.hear({**ASKED, "options": [{"id": "yes", "name": " "}, {"id": "yes", "name": "No"}, OPTIONS[1]]})
    (card,) = questions.cards
    assert card["options"] == [{"id": "yes", "name": "yes", "kind": ""}, OPTIONS[1]]
    row = {"option": "maybe", "actor": "person:x", "at": datetime.now(UTC)}
    assert (questions.settle(row), card["state"]) == (None, "open")
    assert questions.settle({**row, "option": "no"}) == {"id": "q1", "option": "no"}


def test_ids_that_a_desktop_made_up_are_refused_and_the_turn_goes_on(lab: Lab, owner: httpx.Client) -> None:
    turn = sent(owner, id="../" * 9)
    lab.state(turn["operationId"], "done")
    found = answer(owner, turn)
    assert (found["text"], found["questions"]) == ("chosen: None. I heard: look", [])
