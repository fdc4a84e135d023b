-- When an operation was claimed last, by which workspaces take turns; `started_at` stays that of its first attempt.
alter table operation add column claimed_at timestamptz;
grant update (claimed_at) on operation to mc_worker;
-- Where `share_of` changes, rows of before are found by the share that they had: a turn or two come late by that.
create index operation_of_turn on operation (coalesce(workspace_id, ''), share_of(kind), claimed_at)
  where claimed_at is not null;
