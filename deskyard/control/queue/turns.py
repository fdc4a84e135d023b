"""Whose turn it is: the order in which the queue is claimed, which is also the one that people are shown.

Turns are taken by workspaces, in each share of its own. Where operations share a lane hardly two of a workspace are
under way at once: then it is the turn of the one whose last one began the longest ago.
"""

# The shares whose operations start machines, and stop them; of these, those that leave no room once they are done.
MOVING = ("engine", "machines")
FILLING = ("desktop.create", "desktop.start", "desktop.resume", "workspace.create", "workspace.start", "task.begin")

_FILLING = ", ".join(f"'{kind}'" for kind in FILLING)

# Of each operation that is queued, what its turn goes by; what is of no workspace is of one without a name. Of a share
# for which there was no room, `behind` is 1 for what was refused: behind all that may leave some, since it would be
# tried again and again before that, yet not behind what was asked for later and would take the room (2).
TURN = f"""
side as materialized (
  select *, (select max(r.claimed_at) from operation r
      where coalesce(r.workspace_id, '') = workspace and share_of(r.kind) = share) as begun
  from (
    select coalesce(workspace_id, '') as workspace, share_of(kind) as share,
      min(min(created_at) filter (where waits is not null)) over (partition by share_of(kind)) as refused_since
    from operation where state = 'queued' group by 1, 2) as queued
  left join (
    select coalesce(workspace_id, '') as workspace, share_of(kind) as share, count(*) as under_way
    from operation where state = 'running' group by 1, 2) as running using (workspace, share)),
turn as materialized (
  select o.id, o.created_at, s.workspace, s.share, s.begun, coalesce(s.under_way, 0) as under_way,
    o.actor = 'watch' as by_the_hour,
    case when o.waits is not null then 1
      when o.kind in ({_FILLING}) and o.created_at > s.refused_since then 2 else 0 end as behind
  from operation o join side s on s.workspace = coalesce(o.workspace_id, '') and s.share = share_of(o.kind)
  where o.state = 'queued')
"""
# By which the first of `turn as t` is the next.
ORDER = "t.by_the_hour, t.behind, t.under_way, t.begun nulls first, t.created_at, t.id"

# The place of each among those of its share, as if nothing under way ended: of each workspace the `nth` of its own
# begins once as many are under way; of two such, one that waits for its first comes before one that just began another.
PLACE = f"""
{TURN},
own as materialized (
  select t.*, row_number() over own as nth, first_value(t.created_at) over own as first_at,
    first_value(t.id) over own as first_id
  from turn t window own as (partition by t.workspace, t.share order by t.by_the_hour, t.behind, t.created_at, t.id)),
queue as materialized (
  select id, row_number() over (partition by share order by by_the_hour, behind, under_way + nth, nth,
    begun nulls first, first_at, first_id) as place from own)
"""
