-- When the observer was last known to follow a workspace, and what keeps its gateway from answering.
alter table workspace add column followed_at timestamptz;
alter table workspace add column silence text not null default '';
alter table workspace add column silent_since timestamptz;

-- The time that machines ran. Only time in which somebody looked counts: see `close_unseen` of the observer.
create table usage_interval (
  id bigint generated always as identity primary key,
  desktop_id text not null,
  workspace_id text not null,
  tier text not null,
  began_at timestamptz not null,
  ended_at timestamptz check (ended_at >= began_at)
);
create unique index usage_open on usage_interval (desktop_id) where ended_at is null;
create index usage_time on usage_interval (began_at);

-- Prices have a history: what was used before a change is counted by the price of then. In millionths of a unit.
create table tier_price (
  tier text not null,
  micros_per_hour bigint not null check (micros_per_hour between 0 and 1000000000000),
  since timestamptz not null default clock_timestamp(),
  actor text not null,
  primary key (tier, since)
);

create table budget (
  workspace_id text primary key,
  micros_per_month bigint not null check (micros_per_month between 1 and 1000000000000000),
  actor text not null,
  changed_at timestamptz not null default now()
);

create table alert_rule (
  kind text primary key,
  enabled boolean not null default true,
  number integer not null check (number between 0 and 100000)
);
insert into alert_rule (kind, number) values ('desktop.broken', 0), ('desktop.not-ready', 15), ('workspace.broken', 0),
  ('operation.failed', 24), ('gateway.silent', 5), ('backup.missing', 7), ('certificate.ending', 21),
  ('audit.broken', 0), ('budget.near', 80), ('budget.spent', 100);

create table alert (
  id text primary key,
  rule text not null,
  object text not null,
  workspace_id text,
  text text not null,
  number bigint not null,
  opened_at timestamptz not null default now(),
  closed_at timestamptz,
  acknowledged_at timestamptz,
  acknowledged_by text,
  silenced_until timestamptz
);
create unique index alert_open on alert (rule, object) where closed_at is null;
create index alert_recent on alert (opened_at desc, id desc);

create table webhook (
  id text primary key,
  url text not null,
  actor text not null,
  created_at timestamptz not null default now(),
  gone_at timestamptz
);
-- Whoever makes it sees it once; afterwards only the process that signs reads it.
create table webhook_secret (
  webhook_id text primary key references webhook,
  secret bytea not null
);
create table delivery (
  id text primary key,
  webhook_id text not null references webhook,
  kind text not null,
  payload jsonb not null,
  created_at timestamptz not null default now(),
  attempt integer not null default 0,
  next_at timestamptz not null default now(),
  ended_at timestamptz,
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
  answer text not null default ''
);
create index delivery_due on delivery (next_at) where ended_at is null;
create index delivery_recent on delivery (webhook_id, created_at desc);

-- In the transaction of the state, so that no interval is lost with whoever wrote it.
create function note_usage() returns trigger language plpgsql security definer set search_path = public as $$
declare
  runs boolean := new.gone_at is null and new.state in ('booting', 'ready', 'stopping');
  moment timestamptz := now();
begin
  if tg_op = 'UPDATE' then
    if new.state is distinct from old.state then
      moment := least(new.state_at, now());
    end if;
  end if;
  update usage_interval set ended_at = greatest(began_at, moment)
    where desktop_id = new.id and ended_at is null and (not runs or tier <> new.tier);
  if runs then
    insert into usage_interval (desktop_id, workspace_id, tier, began_at)
      values (new.id, new.workspace_id, new.tier, moment) on conflict (desktop_id) where ended_at is null do nothing;
  end if;
  return null;
end $$;
create trigger usage_of_desktop after insert or update of state, tier, gone_at on desktop
  for each row execute function note_usage();

create function note_alert() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into event (kind, subject, workspace_id) values ('alert', new.id, new.workspace_id);
  perform pg_notify('event', '');
  return null;
end $$;
create trigger event_of_alert after insert or update on alert for each row execute function note_alert();

create function note_delivery() returns trigger language plpgsql as $$
begin
  perform pg_notify('watch', '');
  return null;
end $$;
create trigger delivery_waits after insert on delivery for each statement execute function note_delivery();

grant select on usage_interval, tier_price, budget, alert_rule, alert, webhook, delivery to mc_web;
grant insert (tier, micros_per_hour, actor) on tier_price to mc_web;
grant insert, delete on budget to mc_web;
grant update (micros_per_month, actor, changed_at) on budget to mc_web;
grant update (enabled, number) on alert_rule to mc_web;
grant update (acknowledged_at, acknowledged_by, silenced_until) on alert to mc_web;
grant insert (id, url, actor) on webhook to mc_web;
grant update (gone_at) on webhook to mc_web;
grant insert on webhook_secret to mc_web;
grant insert (id, webhook_id, kind, payload) on delivery to mc_web;

grant select on usage_interval, tier_price, budget, alert_rule, alert, webhook, webhook_secret, delivery to mc_worker;
grant insert, update on usage_interval, alert, delivery to mc_worker;
grant update (gone_at) on webhook to mc_worker;
grant delete on delivery to mc_worker;
