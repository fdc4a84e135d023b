-- As of when it is known what a workspace's gateway wrote down of its desktops.
alter table workspace add column moments_read_at timestamptz;

-- Who came in and drove a desktop, and what it was refused, as its gateway wrote it down; of refusals those of an hour, a
-- target and a reason are one. Kept also of what is gone; the worker's account alone writes it.
create table moment (
  workspace_id text not null,
  desktop_id text not null,
  source text not null check (source in ('door', 'egress')),
  key text not null check (length(key) between 1 and 400),
  at timestamptz not null,
  what text not null check (length(what) between 1 and 40),
  actor text not null check (length(actor) <= 300),
  detail text not null check (length(detail) <= 300),
  times integer not null check (times between 1 and 1000000000),
  primary key (desktop_id, source, key)
);
create index moment_of_desktop on moment (desktop_id, at desc);
create index moment_of_workspace on moment (workspace_id, at desc);

-- What an alert is about is the last word of its object: `demo.desk`, or `desktop.start demo.desk`.
create index alert_about on alert (substring(object from '[^ ]*$'), opened_at desc);
create index operation_of_desktop_by_time on operation (desktop_id, created_at desc);

revoke all on moment from public;
grant select on moment to mc_web, mc_worker;
grant insert, delete, update (at, times) on moment to mc_worker;
