"""The rules that read what looks at workspaces and verifications of their isolation found last."""

from collections import defaultdict
from typing import Any

from deskyard.control.store.connection import Link
from deskyard.control.watch.finding import Finding, moment
from deskyard.plan import health

# The newest look at each workspace, unless it is too old to say anything of now.
LOOK = """select distinct on (workspace_id) workspace_id, ended_at, result from operation
    where kind = 'workspace.look' and state = 'done' and recent(ended_at, '1 day')
    order by workspace_id, ended_at desc"""


def findings(link: Link, numbers: dict[str, int]) -> list[Finding]:
    """The findings of these rules now."""
    return _isolation(link) + _unsaved(link, numbers) + _unwell(link) + _refused(link)


def _isolation(link: Link) -> list[Finding]:
    """Workspaces whose last verification found something wrong; what the host verified by itself is not known."""
    query = """select distinct on (o.workspace_id) o.id, o.workspace_id, o.ended_at, o.result
        from operation o join workspace w on w.id = o.workspace_id and w.gone_at is null
        where kind = 'workspace.verify' and o.state = 'done' order by o.workspace_id, o.ended_at desc"""
    findings = []
    for row in link.execute(query).fetchall():
        report = row["result"] or {}
        if report.get("ok") is False:
            wrong = report.get("wrong") or ["see its result"]
            text = f"{row['id']} of {moment(row['ended_at'])} found: {wrong[0]}"
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            findings.append(Finding("isolation.failed", row["workspace_id"], row["workspace_id"], text + more))
    return findings


def _unsaved(link: Link, numbers: dict[str, int]) -> list[Finding]:
    """Desktops that are there for so many days, without a younger backup as far as the last look and operations say."""
    query = """with look as (
            select distinct on (workspace_id) workspace_id, started_at, ended_at, result #> '{backups,rows}' as rows
            from operation where kind = 'workspace.look' and state = 'done' and result #> '{backups,problem}' = 'null'
            order by workspace_id, ended_at desc),
        listed as (
            select workspace_id || '.' || (row ->> 'desktop') as id, max((row ->> 'made')::bigint) as made
            from look cross join jsonb_array_elements(rows) as row group by 1),
        done as (
            select desktop_id as id, max(ended_at) as made from operation
            where kind = 'backup.run' and state = 'done' group by 1),
        known as (
            select d.id, workspace_id, greatest(to_timestamp(listed.made), done.made) as made,
                greatest(look.ended_at, done.made) as as_of, there_since
            from desktop d left join look using (workspace_id) left join listed on listed.id = d.id
                -- What was made before the look, and is not in it, was deleted.
                left join done on done.id = d.id and (look.started_at is null or done.made > look.started_at)
            where gone_at is null and lifetime = 'kept')
        select *, floor(extract(epoch from now() - coalesce(made, there_since)) / 86400)::bigint as days from known
        where there_since < now() - make_interval(days => %s) and (made is not null or as_of > there_since)"""
    findings = []
    for row in link.execute(query, [numbers.get("desktop.no-backup", 0)]).fetchall():
        last = "none is known" if row["made"] is None else f"the last that is known is of {moment(row['made'])}"
        text = f"{last}, as of {moment(row['as_of'])}"
        findings.append(Finding("desktop.no-backup", row["id"], row["workspace_id"], text, row["days"]))
    return findings


def _unwell(link: Link) -> list[Finding]:
    """Machines of which the last look found something that is not well; of desktops, those that are in use now.

    The age of backups has a rule of its own; an agent that somebody has stopped is what was wanted.
    """
    query = f"""with look as ({LOOK}),
        said as (select workspace_id, ended_at, row from look
            cross join jsonb_array_elements(coalesce(result #> '{{health,rows}}', '[]')) as row)
        select said.workspace_id, ended_at, row ->> 'state' as state, row ->> 'check' as check,
            row ->> 'detail' as detail, d.id as desktop
        from said left join desktop d
            on d.id = said.workspace_id || '.' || (row ->> 'machine') and d.gone_at is null and d.state = 'ready'
        where row ->> 'state' <> 'ok' and row ->> 'check' <> 'backup'
            and not (row ->> 'check' = 'agent' and starts_with(row ->> 'detail', %s))
            and (d.id is not null or row ->> 'machine' = 'gateway')
        order by said.workspace_id, row ->> 'machine', row ->> 'state' <> 'failed'"""
    found = defaultdict(list)
    for row in link.execute(query.encode(), [health.STOPPED]).fetchall():
        found[row["desktop"] or f"gateway {row['workspace_id']}"].append(row)
    return [
        Finding("desktop.unwell", object, rows[0]["workspace_id"], _worst(rows), len(rows))
        for object, rows in found.items()
    ]


def _worst(rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{first['state']}: {first['check']}: {first['detail']}{more}, as of {moment(first['ended_at'])}"


def _refused(link: Link) -> list[Finding]:
    """How often each desktop was refused in the hour before the last look."""
    query = f"""with look as ({LOOK}),
        said as (select workspace_id, ended_at, row from look
            cross join jsonb_array_elements(coalesce(result #> '{{refusals,rows}}', '[]')) as row)
        select d.id, d.workspace_id, ended_at, sum((row ->> 'recent')::bigint) as recent,
            (array_agg(row ->> 'target' order by (row ->> 'recent')::bigint desc))[1] as target
        from said join desktop d on d.id = said.workspace_id || '.' || (row ->> 'desktop') and d.gone_at is null
        group by d.id, d.workspace_id, ended_at order by d.id"""
    return [
        Finding(
            "egress.refused",
            row["id"],
            row["workspace_id"],
            f"{row['recent']} times in the hour before {moment(row['ended_at'])}, most of all {row['target']}",
            int(row["recent"]),
        )
        for row in link.execute(query.encode()).fetchall()
        if row["recent"]
    ]
