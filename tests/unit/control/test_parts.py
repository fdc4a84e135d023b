"""What a desktop says beside its agent's text is bounded before it is kept, and what was cut is said to be."""

from typing import Any

import pytest

from deskyard.control.queue import parts
from deskyard.control.queue.parts import Tools, tokens
from deskyard.guest.agent import turn


def heard(*said: dict[str, Any]) -> Tools:
    tools = Tools()
    for event in said:
        tools.hear(event)
    return tools


def test_a_tool_keeps_what_it_was_asked_when_its_end_does_not_say_so() -> None:
    tools = heard(
        {"id": "a", "name": "exec", "state": "started", "summary": "ls"},
        {"id": "a", "name": "exec", "state": "started", "output": "fi"},
        {"id": "a", "name": "exec", "state": "done", "output": "file"},
    )
    (card,) = tools.cards
    assert (card["arguments"], card["output"], card["state"]) == ("ls", "file", "done")
    assert card["started_at"] <= card["ended_at"]


def test_what_is_said_of_a_tool_after_its_end_does_not_begin_it_again() -> None:
    tools = heard({"id": "a", "state": "failed"}, {"id": "a", "state": "started"}, {"id": "a", "state": "done"})
    assert [card["state"] for card in tools.cards] == ["failed"]


def test_texts_are_cut_and_that_is_said() -> None:
    long = "x" * 9000
    (card,) = heard({"id": long, "name": long, "state": "done", "summary": long, "output": long}).cards
    sizes = [len(card[name]) for name in ("id", "name", "arguments", "output")]
    assert sizes == [parts.MOST_ID, parts.MOST_NAME, parts.MOST_ARGUMENTS, parts.MOST_OUTPUT]
    assert card["arguments_cut"] and card["output_cut"]
    (card,) = heard({"id": "a", "state": "done", "summary": "x" * parts.MOST_ARGUMENTS, "output": "short"}).cards
    assert not card["arguments_cut"] and not card["output_cut"]


def test_what_was_cut_on_the_desktop_is_said_to_be_cut() -> None:
    assert turn.MAX_SUMMARY > parts.MOST_ARGUMENTS and turn.MAX_EXCERPT > parts.MOST_OUTPUT


def test_of_many_tools_the_first_are_kept_and_the_others_counted() -> None:
    tools = heard(
        *({"id": str(number), "name": "exec", "state": "started"} for number in range(parts.MOST_TOOLS + 3)),
        {"id": str(parts.MOST_TOOLS), "name": "exec", "state": "done"},
    )
    assert (len(tools.cards), tools.more) == (parts.MOST_TOOLS, 3)
    for number in range(parts.MOST_COUNTED + 9):
        tools.hear({"id": f"more-{number}", "state": "done"})
    assert tools.more == parts.MOST_COUNTED


def test_what_steers_a_terminal_or_turns_a_line_around_is_not_kept() -> None:
    (card,) = heard({"id": "a", "name": "ex\x1b[2Jec\n", "state": "done", "output": "a\u202eb\n\tc"}).cards
    assert (card["name"], card["output"]) == ("ex\ufffd[2Jec\ufffd", "a\ufffdb\n\tc")


@pytest.mark.parametrize("said", [{"id": "a"}, {"id": "a", "state": "flies"}, {"state": None}])
def test_a_state_that_is_none_is_no_tool(said: dict[str, Any]) -> None:
    assert heard(said).cards == []


@pytest.mark.parametrize("number", [-1, 1.5, "7", True, None, parts.MOST_TOKENS + 1])
def test_a_number_of_tokens_that_is_none_is_no_claim(number: object) -> None:
    assert tokens({"input": 1, "output": number, "cached": 0}) is None


def test_a_claim_may_leave_out_what_it_does_not_count() -> None:
    assert tokens({"input": parts.MOST_TOKENS, "output": 0}) == {
        "input": parts.MOST_TOKENS,
        "output": 0,
        "cached": 0,
    }
