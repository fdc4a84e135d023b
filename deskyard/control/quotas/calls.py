"""/api/quotas: how much a workspace, a person or a key may have at most, and has."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import unknown
from deskyard.control.api.unchanged import Conditions
from deskyard.control.people.scopes import ADMIN, READ
from deskyard.control.quotas import admission

router = APIRouter(prefix="/api/quotas", tags=["quotas"])
SUBJECT = r"^(workspace|person|key):[^/\x00-\x1f]{1,80}$"
MOST = 10**15
Subject = Annotated[str, Path(pattern=SUBJECT, description="workspace:NAME, person:NAME or key:ID")]
THERE = {
    "workspace": "select 1 from workspace where id = %s and gone_at is null",
    "person": "select 1 from person where name = %s and disabled_at is null",
    "key": "select 1 from api_key where id = %s and revoked_at is null",
}


class Amounts(Form):
    """Desktops, their sizes, and what they cost in a day by the prices of now."""

    desktops: int
    vcpus: int
    memory_mib: int
    disk_gib: int = Field(description="Both disks of each at full size.")
    micros_per_day: int


class Quota(Form):
    """The most that a workspace, a person or a key may have; what is none has no bound."""

    subject: str = Field(description="workspace:NAME, person:NAME or key:ID")
    desktops: int | None
    vcpus: int | None
    memory_mib: int | None
    disk_gib: int | None
    micros_per_day: int | None
    used: Amounts = Field(description="What it has now, with what is about to be made.")
    actor: str
    changed_at: datetime


class NewQuota(Form):
    """The most from now on; what is left out has no bound, and with none of them there is no quota."""

    desktops: StrictInt | None = Field(None, ge=0, le=1_000_000)
    vcpus: StrictInt | None = Field(None, ge=0, le=MOST)
    memory_mib: StrictInt | None = Field(None, ge=0, le=MOST)
    disk_gib: StrictInt | None = Field(None, ge=0, le=MOST, description="Both disks of each desktop at full size.")
    micros_per_day: StrictInt | None = Field(None, ge=0, le=MOST)


@router.get("")
async def listing(link: Connection, who: Annotated[Caller, Depends(may(READ))], part: rows.AskedPart) -> Page[Quota]:
    """List quotas: an admin sees all, others their own and those of workspaces that they see."""
    condition, values = rows.conditions(
        (
            ("(subject like 'workspace:%%' or subject = %s)", None if ADMIN in who.scopes else admission.own(who)),
            ("(subject not like 'workspace:%%' or substr(subject, 11) = any(%s))", who.bounds),
        )
    )
    return await _page(link, f"select * from quota where {condition}", values, part)


@router.put("/{subject}")
async def put(
    link: Connection,
    who: Annotated[Caller, Depends(may(ADMIN))],
    subject: Subject,
    wanted: NewQuota,
    conditions: Conditions,
) -> Page[Quota]:
    """Set the most that one may have; desktops that are there stay, also where they are more."""
    await conditions.require(link, "select changed_at from quota where subject = %s", subject)
    kind, _, name = subject.partition(":")
    values = wanted.model_dump()
    await in_the_name_of(link, who)
    if all(value is None for value in values.values()):
        await link.execute("delete from quota where subject = %s", [subject])
    elif await rows.row(link, THERE[kind], [name]) is None:
        raise unknown("subject", subject, "name a workspace, a person or the id of a key that is there")
    else:
        query = """insert into quota (subject, desktops, vcpus, memory_mib, disk_gib, micros_per_day)
            values (%s, %s, %s, %s, %s, %s) on conflict (subject) do update set desktops = excluded.desktops,
                vcpus = excluded.vcpus, memory_mib = excluded.memory_mib, disk_gib = excluded.disk_gib,
                micros_per_day = excluded.micros_per_day"""
        await link.execute(query, [subject, *values.values()])
    return await _page(link, "select * from quota", [], rows.asked_part())


async def _page(link: Link, source: str, values: list[object], part: rows.Part) -> Page[Quota]:
    found, going_on, total = await rows.cut(link, source, ["subject"], values, part)
    there = await admission.used(link, [row["subject"] for row in found]) if found else {}
    names = list(Amounts.model_fields)
    items = [Quota(**row, used=Amounts(**{name: there[row["subject"]][name] for name in names})) for row in found]
    return Page(items=items, next_cursor=going_on, total=total)
