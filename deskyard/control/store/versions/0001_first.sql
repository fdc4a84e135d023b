-- Tables of Mission Control. Grants at the end are the border between its processes; see docs/mission-control.md.

create table person (
  id text primary key,
  name text not null unique,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null default now(),
  disabled_at timestamptz
);

create table enrolment (
  token_hash bytea primary key,
  person_id text not null references person,
  expires_at timestamptz not null,
  used_at timestamptz
);

create table passkey (
  id bytea primary key,
  person_id text not null references person,
  name text not null,
  public_key bytea not null,
  created_at timestamptz not null default now()
);

create table challenge (
  value bytea primary key,
  purpose text not null,
  expires_at timestamptz not null
);

create table session (
  id text primary key,
  token_hash bytea not null unique,
  person_id text not null references person,
  agent text not null,
  created_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  expires_at timestamptz not null,
  ended_at timestamptz
);

create table api_key (
  id text primary key,
  name text not null,
  auth_hash bytea not null,
  scopes text[] not null,
  workspaces text[],
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  last_used_at timestamptz,
  revoked_at timestamptz
);

-- With it the worker checks that a key's secret was presented for just this intent; the web process cannot read it.
create table key_proof (
  key_id text primary key references api_key on delete cascade,
  secret bytea not null
);

create table workspace (
  id text primary key,
  site text not null,
  url text not null default '',
  state text not null default 'unknown',
  egress text not null default 'open',
  egress_allow text[] not null default '{}',
  image text not null default '',
  tiers jsonb not null default '[]',
  keys text[] not null default '{}',
  problem jsonb,
  seen_at timestamptz not null default now(),
  gone_at timestamptz
);

create table desktop (
  id text primary key,
  workspace_id text not null references workspace,
  name text not null,
  tier text not null,
  image text not null,
  address text not null,
  state text not null default 'unknown',
  state_at timestamptz not null default now(),
  detail text not null default '',
  wanted text,
  routes text[] not null default '{}',
  generation bigint not null default 1,
  gone_at timestamptz,
  unique (workspace_id, name)
);
create index desktop_order on desktop (workspace_id, name) where gone_at is null;

create table operation (
  id text primary key,
  kind text not null,
  workspace_id text,
  desktop_id text,
  -- Of one lane one runs at a time; nothing: it waits for nobody.
  lane text,
  -- It begins only when that has gone well.
  after_id text references operation,
  input jsonb not null default '{}',
  proof jsonb,
  actor text not null,
  state text not null default 'queued'
    check (state in ('queued', 'running', 'waiting', 'done', 'failed', 'cancelled')),
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ended_at timestamptz,
  attempt integer not null default 0,
  worker text,
  lease_until timestamptz,
  cancel_requested_at timestamptz,
  result jsonb,
  problem jsonb
);
create unique index operation_lane on operation (lane) where state = 'running';
create index operation_queue on operation (created_at, id) where state = 'queued';
create index operation_recent on operation (created_at desc, id desc);
create index operation_running on operation (workspace_id) where state in ('queued', 'running');
create index operation_of_desktop on operation (desktop_id) where state in ('queued', 'running');

create table operation_log (
  operation_id text not null references operation on delete cascade,
  number integer not null,
  at timestamptz not null default now(),
  attempt integer not null,
  line text not null,
  primary key (operation_id, number)
);

-- What is shown once to whoever asked for it, and is left out of every backup.
create table operation_secret (
  operation_id text primary key references operation on delete cascade,
  actor text not null,
  value jsonb not null,
  expires_at timestamptz not null
);

-- The nonces of signed intents that were used: a signature counts once.
create table intent_used (
  nonce text primary key,
  operation_id text not null,
  used_at timestamptz not null default now()
);

create table worker (
  id text primary key,
  seen_at timestamptz not null default now()
);

-- Written in the transaction that admits an operation: the same request again gets the same one.
create table idempotency (
  actor text not null,
  key text not null,
  request_hash bytea not null,
  operation_id text not null references operation on delete cascade,
  created_at timestamptz not null default now(),
  primary key (actor, key)
);

create table conversation (
  id text primary key,
  desktop_id text not null,
  title text not null,
  created_at timestamptz not null default now(),
  last_at timestamptz not null default now()
);
create index conversation_of_desktop on conversation (desktop_id, last_at desc);

create table message (
  id text primary key,
  conversation_id text not null references conversation on delete cascade,
  number bigint generated always as identity,
  role text not null check (role in ('person', 'agent')),
  author text not null,
  text text not null,
  state text not null check (state in ('queued', 'sent', 'streaming', 'done', 'failed', 'interrupted')),
  at timestamptz not null default now(),
  operation_id text,
  problem jsonb,
  words tsvector generated always as (to_tsvector('simple', left(text, 200000))) stored
);
create index message_order on message (conversation_id, number);
create index message_words on message using gin (words);

-- What happened, written in the transaction that made it so. Read in the order (xid, id) below the oldest open one.
create table event (
  id bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default now(),
  kind text not null,
  subject text not null,
  workspace_id text,
  desktop_id text
);
create index event_order on event (xid, id);

create table audit_intake (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  actor text not null,
  action text not null,
  target text not null,
  detail jsonb not null default '{}'
);

create table audit_entry (
  number bigint primary key,
  at timestamptz not null,
  actor text not null,
  action text not null,
  target text not null,
  detail jsonb not null,
  hash bytea not null
);

create function note_event() returns trigger language plpgsql security definer set search_path = public as $$
begin
  if tg_table_name = 'desktop' then
    insert into event (kind, subject, workspace_id, desktop_id)
      values ('desktop', new.id, new.workspace_id, new.id);
  elsif tg_table_name = 'workspace' then
    insert into event (kind, subject, workspace_id) values ('workspace', new.id, new.id);
  elsif tg_table_name = 'operation' then
    insert into event (kind, subject, workspace_id, desktop_id)
      values ('operation', new.id, new.workspace_id, new.desktop_id);
    perform pg_notify('work', '');
  elsif tg_table_name = 'operation_log' then
    insert into event (kind, subject, workspace_id, desktop_id)
      select 'operation.log', new.operation_id || '/' || new.number, workspace_id, desktop_id
      from operation where id = new.operation_id;
  elsif tg_table_name = 'message' then
    insert into event (kind, subject, workspace_id, desktop_id)
      select 'message', new.id, split_part(desktop_id, '.', 1), desktop_id
      from conversation where id = new.conversation_id;
  end if;
  perform pg_notify('event', '');
  return null;
end $$;

create trigger event_of_desktop after insert or update on desktop for each row execute function note_event();
create trigger event_of_workspace after insert on workspace for each row execute function note_event();
create trigger event_of_changed_workspace after update on workspace for each row
  when ((old.state, old.url, old.egress, old.egress_allow, old.image, old.tiers, old.keys, old.problem, old.gone_at)
    is distinct from
    (new.state, new.url, new.egress, new.egress_allow, new.image, new.tiers, new.keys, new.problem, new.gone_at))
  execute function note_event();
create trigger event_of_new_operation after insert on operation for each row execute function note_event();
-- A renewed lease is no news.
create trigger event_of_operation after update on operation for each row
  when ((old.state, old.attempt, old.cancel_requested_at) is distinct from
    (new.state, new.attempt, new.cancel_requested_at))
  execute function note_event();
create trigger event_of_log after insert on operation_log for each row execute function note_event();
create trigger event_of_message after insert or update on message for each row execute function note_event();

create function note_audit() returns trigger language plpgsql as $$
begin
  perform pg_notify('audit', '');
  return null;
end $$;
create trigger audit_waits after insert on audit_intake for each statement execute function note_audit();

-- A signature over an operation, or a proof of a key, never changes after it was admitted.
revoke all on all tables in schema public from public;
revoke all on schema public from public;
revoke temporary on database mission from public;
grant usage on schema public to mc_web, mc_worker, mc_recorder;

grant select on person, enrolment, passkey, session, api_key, workspace, desktop, operation, operation_log, worker,
  conversation, message, event, audit_entry to mc_web;
grant select, insert, delete on challenge to mc_web;
grant insert on session to mc_web;
grant update (seen_at, ended_at) on session to mc_web;
grant update (last_used_at, revoked_at) on api_key to mc_web;
grant insert (id, kind, workspace_id, desktop_id, lane, after_id, input, proof, actor) on operation to mc_web;
grant update (cancel_requested_at) on operation to mc_web;
grant select, delete on operation_secret to mc_web;
grant select, insert on idempotency to mc_web;
grant select, insert on conversation to mc_web;
grant update (last_at) on conversation to mc_web;
grant insert (id, conversation_id, role, author, text, state, operation_id) on message to mc_web;
grant insert on audit_intake to mc_web, mc_worker;

grant select on all tables in schema public to mc_worker;
grant insert, update on workspace, desktop, worker to mc_worker;
grant delete on worker, idempotency, challenge, operation_secret, event to mc_worker;
grant update (state, started_at, ended_at, attempt, worker, lease_until, result, problem) on operation to mc_worker;
grant insert on operation_log, operation_secret, intent_used, message, passkey to mc_worker;
grant update (used_at) on enrolment to mc_worker;
grant update (text, state, problem, operation_id) on message to mc_worker;
grant update (last_at) on conversation to mc_worker;

grant select, delete on audit_intake to mc_recorder;
grant select, insert on audit_entry to mc_recorder;
