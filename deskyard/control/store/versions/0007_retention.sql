-- How long a conversation is kept after its last message: by its workspace, or else by the site; no days: for ever. The
-- worker's account alone writes it, after it saw that an admin signed just that.
create table retention (
  subject text primary key check (subject ~ '^(site|workspace:.+)$'),
  days integer check (days between 1 and 36500),
  actor text not null,
  changed_at timestamptz not null default now()
);

-- The tokens that agents claimed in conversations that are gone, of each desktop and day (UTC): usage counts them on.
create table claim_kept (
  desktop_id text not null,
  day bigint not null,
  turns bigint not null,
  input bigint not null,
  output bigint not null,
  cached bigint not null,
  primary key (desktop_id, day)
);

-- The age of a conversation is what is deleted by: the database alone says it, and the web process no more.
create function note_said() returns trigger language plpgsql security definer set search_path = public as $$
begin
  update conversation set last_at = now() where id = new.conversation_id;
  return null;
end $$;
create trigger said_in_conversation after insert on message for each row execute function note_said();
revoke insert, update (last_at) on conversation from mc_web;
grant insert (id, desktop_id, title) on conversation to mc_web;

create function note_gone() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into event (kind, subject, workspace_id, desktop_id)
    values ('conversation', old.id, split_part(old.desktop_id, '.', 1), old.desktop_id);
  perform pg_notify('event', '');
  return null;
end $$;
create trigger event_of_gone_conversation after delete on conversation for each row execute function note_gone();

create index conversation_age on conversation (last_at);
create index operation_of_lane on operation (lane) where state in ('queued', 'running', 'waiting');

revoke all on retention, claim_kept from public;
grant select on retention, claim_kept to mc_web, mc_worker;
grant insert, update, delete on retention to mc_worker;
grant insert, update on claim_kept to mc_worker;
grant delete on conversation, message to mc_worker;
