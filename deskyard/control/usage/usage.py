"""Machine time and its cost, in whole microseconds and millionths of a unit: nothing is added up as a fraction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

MICROSECONDS_PER_HOUR = 3_600_000_000
DAY_SECONDS = 86_400
# An open interval goes on while its workspace is followed; else it ends where that was known last.
FOLLOWED = "60 seconds"

# Of each desktop and day (UTC): the microseconds that it ran, and their cost by the price per hour of their moment. It
# is exact until here, and rounded down here alone: whatever is shown or added up is of these lines, so all sums agree.
LINES = f"""
with price as (
  select tier, micros_per_hour, since, lead(since, 1, 'infinity') over (partition by tier order by since) as until
  from tier_price),
seen as (
  select u.*, least(coalesce(u.ended_at, case when recent(w.followed_at, '{FOLLOWED}') then now()
      else greatest(u.began_at, coalesce(w.followed_at, u.began_at)) end), %(until)s) as end_at
  from usage_interval u left join workspace w on w.id = u.workspace_id
  where u.began_at < %(until)s and (%(workspace)s::text is null or u.workspace_id = %(workspace)s)
    and (%(desktop)s::text is null or u.desktop_id = %(desktop)s)
    and (%(bounds)s::text[] is null or u.workspace_id = any(%(bounds)s))),
piece as (
  select s.workspace_id, s.desktop_id, s.tier, n as day,
    greatest(s.began_at, to_timestamp(n * {DAY_SECONDS}::bigint)) as a,
    least(s.end_at, to_timestamp((n + 1) * {DAY_SECONDS}::bigint)) as b
  from seen s cross join lateral generate_series(
    floor(extract(epoch from greatest(s.began_at, %(since)s)) / {DAY_SECONDS})::bigint,
    floor(extract(epoch from s.end_at) / {DAY_SECONDS})::bigint) as n
  where s.end_at > %(since)s)
select workspace_id, desktop_id, tier, day,
  sum((extract(epoch from b - a) * 1000000)::bigint)::numeric as microseconds,
  div(coalesce(sum((select sum((extract(epoch from least(b, p.until) - greatest(a, p.since)) * 1000000)::numeric
      * p.micros_per_hour) from price p where p.tier = piece.tier and p.since < b and p.until > a)), 0),
    {MICROSECONDS_PER_HOUR}) as micros
from piece where b > a group by workspace_id, desktop_id, tier, day order by day, workspace_id, desktop_id, tier
"""

AMOUNTS = "sum(microseconds) as microseconds, sum(micros) as micros"
BY_WORKSPACE = f"select workspace_id, {AMOUNTS} from ({LINES}) as line group by workspace_id"

# Of each desktop and day (UTC): the tokens that its agent claims, by the moment of its answer; nobody measured them.
# Those of conversations that are gone are kept by whole days: see `deskyard.control.retention.forget`.
CLAIMS = f"""
select split_part(desktop_id, '.', 1) as workspace_id, desktop_id, day, sum(turns) as turns, sum(input) as input,
  sum(output) as output, sum(cached) as cached
from (
  select c.desktop_id, floor(extract(epoch from m.at) / {DAY_SECONDS})::bigint as day, 1 as turns,
    m.claimed_input as input, m.claimed_output as output, m.claimed_cached as cached
  from message m join conversation c on c.id = m.conversation_id
  where m.claimed_input is not null and m.at >= %(since)s and m.at < %(until)s
  union all
  select desktop_id, day, turns, input, output, cached from claim_kept
  where day >= extract(epoch from %(since)s::timestamptz) / {DAY_SECONDS}
    and day < extract(epoch from %(until)s::timestamptz) / {DAY_SECONDS}) as claim
where (%(workspace)s::text is null or split_part(desktop_id, '.', 1) = %(workspace)s)
  and (%(desktop)s::text is null or desktop_id = %(desktop)s)
  and (%(bounds)s::text[] is null or split_part(desktop_id, '.', 1) = any(%(bounds)s))
group by desktop_id, day order by day, desktop_id
"""


@dataclass(frozen=True)
class Line:
    """A desktop's machine time on a day and its cost, rounded down by the line, so that shown lines add up."""

    workspace: str
    desktop: str
    tier: str
    day: date
    microseconds: int
    micros: int


def values(
    since: date, until: date, workspace: str | None = None, desktop: str | None = None, bounds: list[str] | None = None
) -> dict[str, Any]:
    """The parameters of these queries: from the beginning of a day to the end of another, in UTC."""
    return {
        "since": datetime(since.year, since.month, since.day, tzinfo=UTC),
        "until": datetime(until.year, until.month, until.day, tzinfo=UTC) + timedelta(days=1),
        "workspace": workspace,
        "desktop": desktop,
        "bounds": bounds,
    }


def line(row: Mapping[str, Any]) -> Line:
    """A line of a row of `LINES`."""
    amounts = int(row["microseconds"]), int(row["micros"])
    return Line(row["workspace_id"], row["desktop_id"], row["tier"], day_of(row), *amounts)


def day_of(row: Mapping[str, Any]) -> date:
    """The day of a row of `LINES` or `CLAIMS`."""
    return datetime.fromtimestamp(int(row["day"]) * DAY_SECONDS, UTC).date()


def month_of(day: date) -> tuple[date, date]:
    """The first and the last day of a day's month."""
    following = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    return day.replace(day=1), following - timedelta(days=1)
