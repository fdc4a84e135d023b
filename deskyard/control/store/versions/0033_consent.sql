-- The kinds of operations of a workspace that wait until others agree, as many as its rule says.
alter table approval_rule add column operations text[] not null default '{}';

-- Who asked, by the signature that the worker checked, of what waits and of links. Of what waits: what, in the line that was signed; until when.
alter table operation
  add column asker text,
  add column asked text,
  add column waits_until timestamptz;
grant update (asker, asked, waits_until) on operation to mc_worker;

-- Who agreed, and who did not. The worker's account alone writes it, after it saw that they signed just that.
create table operation_decision (
  operation_id text not null references operation on delete cascade,
  actor text not null,
  answer text not null check (answer in ('allow', 'refuse')),
  decision_id text not null,
  at timestamptz not null default now(),
  primary key (operation_id, actor)
);
revoke all on operation_decision from public;
grant select on operation_decision to mc_web, mc_worker;
grant insert, update, delete on operation_decision to mc_worker;

create function note_operation_decision() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into event (kind, subject, workspace_id, desktop_id)
    select 'operation', id, workspace_id, desktop_id from operation where id = new.operation_id;
  perform pg_notify('event', '');
  return null;
end $$;
create trigger event_of_operation_decision after insert or update on operation_decision
  for each row execute function note_operation_decision();

-- What waits for somebody stands beside a desktop as what runs does.
drop index operation_of_desktop;
create index operation_of_desktop on operation (desktop_id) where state in ('queued', 'running', 'waiting');
create index operation_waiting on operation (workspace_id) where state = 'waiting';
