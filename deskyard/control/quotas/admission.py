"""Whether more desktops are within the quotas, counted in the transaction that writes it down.

Whoever asks at the same time waits for the same lock, so that two together take no more than is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Link, Row
from deskyard.control.api.problem import Problem

# What a desktop of `x` is, by its workspace and tier; its price is that of a whole day, also while it is off. A tier of
# before, of which the observer wrote down less, has none of what it does not say; of a workspace that is not there yet
# the tier is as another one has it, of the same site if there is one.
TIER = """left join lateral (
    select t from workspace w, jsonb_array_elements(w.tiers) t where t ->> 'name' = x.tier
      and (w.id = x.workspace_id or not exists (select from workspace v where v.id = x.workspace_id))
    order by (w.site = x.site) is true desc, w.gone_at nulls first limit 1) as declared on true"""
SIZE = """
  coalesce((t ->> 'vcpus')::bigint, 0) as vcpus,
  coalesce((t ->> 'memory_gib')::numeric * 1024, 0)::bigint as memory_mib,
  (coalesce((t ->> 'disk_gib')::bigint, 0) + coalesce((t ->> 'home_gib')::bigint, 0)) as disk_gib,
  coalesce((select micros_per_hour * 24 from tier_price p where p.tier = x.tier order by since desc limit 1),
    0)::bigint as micros_per_day"""
# What subjects have: what is declared or claimed, and what is about to be; a desktop is also that of whoever wanted it.
USED = f"""
with held as (
  select d.id, d.workspace_id, d.tier, d.lifetime = 'task' as is_task, d.claimed_by_operation as begun_by,
    null as site from desktop d where d.gone_at is null
  union all
  select o.id, o.workspace_id, o.input ->> 'counts', true, o.id, null from operation o
    where o.kind = 'task.begin' and o.state in ('queued', 'running')
    and not exists (select from desktop d where d.claimed_by_operation = o.id and d.gone_at is null)
  union all
  (select distinct on (o.desktop_id) o.desktop_id, o.workspace_id, o.input ->> 'tier', false, null, null
    from operation o
    where o.kind = 'desktop.create'
    and ((o.state in ('queued', 'running', 'waiting')
        and not exists (select from desktop d where d.id = o.desktop_id and d.gone_at is null))
      or (o.state = 'done' and recent(o.ended_at, '1 minute')
        and not exists (select from desktop d where d.id = o.desktop_id))))
  union all
  select o.workspace_id || '.' || (n ->> 'name'), o.workspace_id, n ->> 'tier', false, null, o.input ->> 'site'
    from operation o, jsonb_array_elements(o.input -> 'desktops') n
    where o.kind = 'workspace.create' and o.state in ('queued', 'running')
    and not exists (
      select from desktop d where d.id = o.workspace_id || '.' || (n ->> 'name') and d.gone_at is null)),
owned as (
  select x.*, (select case when o.actor like 'key:%%' then 'key:' || substring(o.actor from '[^:]*$') else o.actor end
      from operation o where o.id = x.begun_by or not x.is_task and o.state not in ('failed', 'cancelled')
      and (o.kind = 'desktop.create' and o.desktop_id = x.id or o.kind = 'workspace.create'
        and o.workspace_id = x.workspace_id
        and o.input -> 'desktops' @> jsonb_build_array(jsonb_build_object('name', split_part(x.id, '.', 2))))
      order by o.created_at desc limit 1) as maker, {SIZE}
  from held x {TIER})
select s as subject, count(o.id) as desktops, coalesce(sum(o.vcpus), 0)::bigint as vcpus,
  coalesce(sum(o.memory_mib), 0)::bigint as memory_mib, coalesce(sum(o.disk_gib), 0)::bigint as disk_gib,
  coalesce(sum(o.micros_per_day), 0)::bigint as micros_per_day
from unnest(%s::text[]) s left join owned o on s = 'workspace:' || o.workspace_id or s = o.maker group by s
"""
ADDED = f"""select count(*) as desktops, sum(vcpus)::bigint as vcpus, sum(memory_mib)::bigint as memory_mib,
  sum(disk_gib)::bigint as disk_gib, sum(micros_per_day)::bigint as micros_per_day,
  array_agg(distinct tier) filter (where t is null) as unknown
from (select x.tier, t, {SIZE}
  from (select %s::text as workspace_id, unnest(%s::text[]) as tier, %s::text as site) x {TIER}) added"""
REMEDY = "destroy a desktop, choose a smaller tier, or let an admin raise it: GET /api/quotas has all that are yours"


@dataclass(frozen=True)
class Kind:
    """Something that is counted: its column, its name in a request, and in what."""

    column: str
    field: str
    unit: str


SIZES = ("vcpus", "memory_mib", "disk_gib")
KINDS = (
    Kind("desktops", "desktops", "desktops"),
    Kind("vcpus", "vcpus", "virtual CPUs"),
    Kind("memory_mib", "memoryMib", "MiB of memory"),
    Kind("disk_gib", "diskGib", "GiB of disks"),
    Kind("micros_per_day", "microsPerDay", "millionths of price a day"),
)


def own(who: Caller) -> str:
    """The subject that a caller is."""
    return f"key:{who.key['id']}" if who.key is not None else who.actor


async def require(link: Link, who: Caller, workspace: str, tier: str) -> None:
    """Raise a 409 if a desktop of this tier would be more than a quota leaves; nothing is touched before."""
    await require_many(link, who, workspace, [tier])


async def require_many(link: Link, who: Caller, workspace: str, tiers: Sequence[str], site: str | None = None) -> None:
    """The same for as many desktops as there are tiers; `site` is that of a workspace that is not there yet."""
    subjects = sorted({f"workspace:{workspace}", own(who)})
    bounded = await rows.rows(link, "select * from quota where subject = any(%s) order by subject", [subjects])
    if not bounded:
        return
    for quota in bounded:
        await link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 9))", [quota["subject"]])
    there = await used(link, [quota["subject"] for quota in bounded])
    added = await rows.row(link, ADDED, [workspace, list(tiers), site])
    assert added is not None
    for quota in bounded:
        if site is not None and added["unknown"]:
            _require_no_size(quota, added["unknown"])
        _require(quota, there[quota["subject"]], added)


async def require_again(link: Link, who: Caller, desktop: str, tier: str) -> None:
    """The same for a desktop that was to be made before: one that is declared since counts already."""
    if await rows.row(link, "select 1 from desktop where id = %s and gone_at is null", [desktop]) is None:
        await require(link, who, desktop.partition(".")[0], tier)


async def used(link: Link, subjects: Sequence[str]) -> dict[str, Row]:
    """The resources that these subjects have, by subject."""
    return {row["subject"]: row for row in await rows.rows(link, USED, [list(subjects)])}


def _require_no_size(quota: Mapping[str, Any], tiers: Sequence[str]) -> None:
    """Raise a 409 where a quota bounds sizes, and no workspace has these tiers by which theirs would be known."""
    if any(quota[column] is not None for column in SIZES):
        reason = f"is of no workspace yet, so that its size is not known, which the quota of {quota['subject']} bounds"
        remedy = "declare the first workspace with it at its host, or let an admin bound desktops alone meanwhile"
        raise Problem(HTTPStatus.CONFLICT, "tier", ", ".join(tiers), reason, remedy)


def _require(quota: Mapping[str, Any], there: Mapping[str, Any], added: Mapping[str, Any]) -> None:
    for kind in KINDS:
        most, has, more = quota[kind.column], there[kind.column], added[kind.column]
        if most is not None and has + more > most:
            reason = f"is more than {quota['subject']} may have: {most} {kind.unit}, of which it has {has}"
            raise Problem(HTTPStatus.CONFLICT, kind.field, has + more, reason, REMEDY)
