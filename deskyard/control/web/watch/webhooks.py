"""/api/webhooks: who is told of alerts, by mail or by messages that are signed as Standard Webhooks has it."""

import secrets
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from deskyard.control.answers.kept import Answered
from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.people.scopes import ADMIN
from deskyard.control.watch import mail, webhooks
from deskyard.control.watch.mail import SCHEME

router = APIRouter(prefix="/api/webhooks", tags=["webhooks"])
Admin = Annotated[Caller, Depends(may(ADMIN))]


class NewWebhook(Form):
    """Where messages are to go."""

    url: str = Field(min_length=1, max_length=2000, description="https://..., or mailto:NAME@DOMAIN for mail.")


class Webhook(Form):
    """Who is told, and by whom that was wanted."""

    id: str
    url: str
    actor: str
    created_at: datetime


class MadeWebhook(Webhook):
    """A new one; its secret, with which messages are signed, stands here and never again. Mail has none."""

    secret: str


class Delivery(Form):
    """A message, how often it was tried, and what came of it last."""

    id: str
    webhook_id: str
    kind: str
    created_at: datetime
    attempt: int
    next_at: datetime
    ended_at: datetime | None
    state: Literal["waiting", "delivered", "failed"]
    answer: str


@router.get("")
async def listing(link: Connection, who: Admin, part: rows.AskedPart) -> Page[Webhook]:
    """List who is told."""
    source = "select id, url, actor, created_at from webhook where gone_at is null"
    found, going_on, total = await rows.cut(link, source, ["created_at", "id"], [], part)
    return Page(items=[Webhook(**row) for row in found], next_cursor=going_on, total=total)


@router.post("", status_code=HTTPStatus.CREATED)
async def make(answered: Answered, who: Admin, wanted: NewWebhook) -> MadeWebhook:
    """Tell somebody of every alert from now on; only https to public addresses, unless the operator allows more.

    Mail goes by the server that the operator declared at the host.
    """
    return await answered.given(who, MadeWebhook, lambda: _made(answered.link, who, wanted))


async def _made(link: Link, who: Caller, wanted: NewWebhook) -> MadeWebhook:
    mails = wanted.url.startswith(SCHEME)
    if mails:
        await _require_mail(link, wanted.url)
    else:
        webhooks.parsed(wanted.url)
    id, secret = f"wh_{secrets.token_hex(8)}", secrets.token_bytes(webhooks.SECRET_BYTES)
    await in_the_name_of(link, who)
    query = "insert into webhook (id, url) values (%s, %s) returning id, url, actor, created_at"
    made = await rows.row(link, query, [id, wanted.url])
    assert made is not None
    if not mails:
        await link.execute("insert into webhook_secret (webhook_id, secret) values (%s, %s)", [id, secret])
    return MadeWebhook(**made, secret="" if mails else webhooks.written(secret))


async def _require_mail(link: Link, url: str) -> None:
    mail.recipient(url)
    if await rows.row(link, "select sender from mail_server", []) is None:
        raise Problem(HTTPStatus.CONFLICT, "url", url, "cannot be told: no mail server is declared", mail.UNDECLARED)


@router.delete("/{id}", status_code=HTTPStatus.NO_CONTENT)
async def remove(link: Connection, who: Admin, id: str) -> None:
    """Tell it nothing more."""
    await in_the_name_of(link, who)
    query = "update webhook set gone_at = now() where id = %s and gone_at is null returning id"
    if await rows.row(link, query, [id]) is None:
        raise unknown("webhook", id, "see GET /api/webhooks")


@router.post("/{id}/test", status_code=HTTPStatus.ACCEPTED)
async def test(answered: Answered, who: Admin, id: str) -> Delivery:
    """Send it a message of the type `webhook.test`; its deliveries say what came of it."""
    return await answered.given(who, Delivery, lambda: _tested(answered.link, who, id))


async def _tested(link: Link, who: Caller, id: str) -> Delivery:
    if await rows.row(link, "select 1 from webhook where id = %s and gone_at is null", [id]) is None:
        raise unknown("webhook", id, "see GET /api/webhooks")
    await in_the_name_of(link, who)
    query = "insert into delivery (id, webhook_id) values (%s, %s) returning *"
    made = await rows.row(link, query, [f"msg_{secrets.token_hex(12)}", id])
    assert made is not None
    return Delivery(**{name: made[name] for name in Delivery.model_fields})


@router.get("/{id}/deliveries")
async def deliveries(
    link: Connection, who: Admin, id: str, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Page[Delivery]:
    """List its last messages, the newest first."""
    query = "select * from delivery where webhook_id = %s order by created_at desc, id limit %s"
    found = await rows.rows(link, query, [id, limit])
    return Page(items=[Delivery(**{name: row[name] for name in Delivery.model_fields}) for row in found])
