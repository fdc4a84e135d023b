-- Tickets of gateways: connections that wait for a person. The worker's account writes down what gateways say; the web
-- process reads, and can neither make a ticket nor answer one by itself.

create table approval (
  id text primary key,
  ticket text not null,
  workspace_id text not null references workspace,
  desktop_id text not null,
  address text not null,
  name text not null,
  port integer not null,
  -- As the gateway said it last; what ends by the clock is worked out when it is read.
  state text not null check (state in ('waiting', 'allowed', 'refused', 'used', 'over', 'lapsed')),
  tries integer not null,
  held integer not null,
  held_until timestamptz,
  since timestamptz not null,
  until timestamptz not null,
  last_at timestamptz not null,
  verdict text,
  decided_by text,
  reason text not null default '',
  decided_at timestamptz,
  ends_at timestamptz
);
create index approval_order on approval (since desc, id desc);

create function note_approval() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into event (kind, subject, workspace_id, desktop_id)
    values ('approval', new.id, new.workspace_id, new.desktop_id);
  perform pg_notify('event', '');
  return null;
end $$;
create trigger event_of_new_approval after insert on approval for each row execute function note_approval();
create trigger event_of_approval after update on approval for each row
  when (old is distinct from new) execute function note_approval();

revoke all on approval from public;
grant select on approval to mc_web;
grant select, insert, update, delete on approval to mc_worker;
