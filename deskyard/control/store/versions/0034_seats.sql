-- The seats of workspaces, for desktops that are for a task: free, or how far the machine there is and who has it, as the
-- ledger said when it was read last. Who has it is the name that claimed it; `operation_id` is the operation that did.
create table seat (
  id text primary key,
  workspace_id text not null references workspace on delete cascade,
  name text not null,
  tier text not null,
  image text not null,
  address text not null,
  state text not null check (state in ('free', 'making', 'waiting', 'claimed')),
  since timestamptz,
  machine text,
  claimed_by text,
  operation_id text,
  until timestamptz,
  unique (workspace_id, name)
);
-- As of when that is known.
alter table workspace add column seats_at timestamptz;
revoke all on seat from public;
grant select on seat to mc_web, mc_worker;
grant insert, update, delete on seat to mc_worker;

-- A desktop that is for a task is there while somebody has it: which machine it is, by whom, and until when.
alter table desktop
  add column lifetime text not null default 'kept' check (lifetime in ('kept', 'task')),
  add column machine text,
  add column until timestamptz,
  add column claimed_by_operation text;

-- Which desktop came of an operation that began one for a task is known at its end.
grant update (desktop_id) on operation to mc_worker;

create function note_seat() returns trigger language plpgsql security definer set search_path = public as $$
declare
  named text := case when tg_op = 'DELETE' then old.workspace_id else new.workspace_id end;
begin
  insert into event (kind, subject, workspace_id) values ('workspace', named, named);
  perform pg_notify('event', '');
  return null;
end $$;
create trigger event_of_seat after insert or update or delete on seat for each row execute function note_seat();

create or replace function share_of(kind text) returns text language sql immutable as $$
  select case
    when kind = 'desktop.chat' then 'agents'
    when kind in ('desktop.create', 'desktop.destroy', 'workspace.up') then 'engine'
    when kind in ('desktop.start', 'desktop.stop', 'desktop.restart', 'workspace.start', 'workspace.stop',
      'snapshot.create', 'snapshot.restore', 'task.begin', 'task.release', 'task.tidy') then 'machines'
    when kind in ('backup.run', 'workspace.verify') then 'backups'
    when kind = 'desktop.session' then 'sessions'
    when kind = 'workspace.look' then 'looks'
    when kind in ('desktop.freeze', 'desktop.thaw') then 'stops'
    else 'answers' end
$$;

-- Who watches has what is over removed, and the pool filled again after a desktop of it was given: it can write down no other
-- operation, and deletes none but its own of this kind that are over.
create function ask_for_tidying(asked text, of_workspace text) returns void
language plpgsql security definer set search_path = public as $$
begin
  delete from operation o where o.workspace_id = of_workspace and o.kind = 'task.tidy' and o.actor = 'watch'
    and o.state in ('done', 'failed', 'cancelled');
  insert into operation (id, kind, workspace_id, lane, actor)
    values (asked, 'task.tidy', of_workspace, 'tidy:' || of_workspace, 'watch');
  insert into audit_intake (actor, action, target, detail)
    values ('watch', 'task.tidy', of_workspace, jsonb_build_object('operation', asked));
end $$;
revoke all on function ask_for_tidying from public;
grant execute on function ask_for_tidying to mc_worker;
