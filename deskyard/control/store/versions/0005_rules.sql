-- Who answers what desktops of a workspace wait for, and how many have to. The worker's account alone writes it, after it
-- saw that an admin signed just that: whoever takes the web process can neither loosen a rule nor count as somebody.
create table approval_rule (
  workspace_id text primary key references workspace,
  persons integer not null check (persons in (1, 2)),
  roles text[] not null,
  people text[] not null,
  keys text[] not null check (persons = 1 or keys = '{}'),
  actor text not null,
  changed_at timestamptz not null default now()
);

-- Answers that wait for another person's.
create table approval_decision (
  approval_id text not null references approval on delete cascade,
  actor text not null,
  answer text not null,
  operation_id text not null,
  at timestamptz not null default now(),
  primary key (approval_id, actor)
);

-- Who asked is looked for among what was wanted of a desktop.
create index operation_asked on operation (desktop_id, created_at) where kind in ('desktop.chat', 'desktop.session');

create function note_decision() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into event (kind, subject, workspace_id, desktop_id)
    select 'approval', id, workspace_id, desktop_id from approval
    where id = case when tg_op = 'DELETE' then old.approval_id else new.approval_id end;
  perform pg_notify('event', '');
  return null;
end $$;
create trigger event_of_decision after insert or update or delete on approval_decision
  for each row execute function note_decision();

-- How much a workspace, a key or a person may have at most; nothing: no bound.
create table quota (
  subject text primary key check (subject ~ '^(workspace|key|person):.'),
  desktops integer check (desktops >= 0),
  memory_mib bigint check (memory_mib >= 0),
  micros_per_day bigint check (micros_per_day >= 0),
  actor text not null,
  changed_at timestamptz not null default now()
);
-- Whose desktops they are: whoever wanted them last.
create index operation_of_maker on operation (desktop_id, created_at desc) where kind = 'desktop.create';

revoke all on approval_rule, approval_decision, quota from public;
grant select on approval_rule, approval_decision, quota to mc_web, mc_worker;
grant insert, update, delete on approval_rule, approval_decision to mc_worker;
grant insert, delete on quota to mc_web;
grant update (desktops, memory_mib, micros_per_day, actor, changed_at) on quota to mc_web;
