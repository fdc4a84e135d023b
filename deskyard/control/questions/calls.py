"""A person's answer to what an agent asked by itself: taken once, passed on by the worker."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field

from deskyard.control.answers.kept import Answered
from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Link, may
from deskyard.control.api.forms.base import Form
from deskyard.control.api.forms.conversations import Question
from deskyard.control.api.named import require_conversation
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.people.scopes import CHAT

router = APIRouter(prefix="/api", tags=["conversations"])


class Chosen(Form):
    """One of the options that the agent offered."""

    option: str = Field(min_length=1, max_length=100)


@router.post("/conversations/{id}/messages/{message}/questions/{question}/answer")
async def answer(
    answered: Answered, who: Annotated[Caller, Depends(may(CHAT))], id: str, message: str, question: str, chosen: Chosen
) -> Question:
    """Answer what the agent asks; it asks by itself (courtesy), and nothing but the agent holds it to the answer."""
    return await answered.given(who, Question, lambda: _taken(answered.link, who, id, message, question, chosen))


async def _taken(link: Link, who: Caller, id: str, message: str, question: str, chosen: Chosen) -> Question:
    await require_conversation(link, who, id)
    query = f"{rows.MESSAGE} where id = %s and conversation_id = %s"
    found = await rows.row(link, query, [message, id])
    shown = next((each for each in rows.questions(found) if each.id == question), None) if found else None
    if shown is None:
        raise unknown("question", question, f"see GET /api/conversations/{id}/messages")
    if chosen.option not in [option.id for option in shown.options]:
        remedy = f"choose one of {', '.join(option.id for option in shown.options)}"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "option", chosen.option, "was not offered", remedy)
    taken = None
    if shown.state == "open" and shown.until > datetime.now(UTC):
        query = """insert into question_answer (message_id, question, option, actor) values (%s, %s, %s, %s)
            on conflict do nothing returning *"""
        taken = await rows.row(link, query, [message, question, chosen.option, who.actor])
    query = "select * from question_answer where message_id = %s and question = %s"
    taken = taken or await rows.row(link, query, [message, question])
    if taken is None:
        reason = "is not open any more: it was refused, as nobody answered in time"
        raise Problem(HTTPStatus.CONFLICT, "question", question, reason, "give the agent a new message")
    if (taken["actor"], taken["option"]) != (who.actor, chosen.option):
        reason = f"was answered by {taken['actor']}: {taken['option']}"
        raise Problem(HTTPStatus.CONFLICT, "question", question, reason, "nothing is to be done")
    news = {"state": "answered", "option": taken["option"], "answered_by": taken["actor"], "answered_at": taken["at"]}
    return shown.model_copy(update=news)
