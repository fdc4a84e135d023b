-- Which task was run at the host, on what, by whom, and how it ended. The operator is an account of the host: nobody who
-- signs in here. Kept also of what is gone; the worker's account alone writes it.
create table host_task (
  id text primary key check (length(id) between 1 and 100),
  workspace_id text not null check (length(workspace_id) <= 63),
  desktop_id text check (length(desktop_id) <= 127),
  task text not null check (length(task) between 1 and 64),
  actor text not null check (length(actor) <= 300),
  began_at timestamptz not null,
  state text not null check (state in ('running', 'done', 'failed', 'interrupted')),
  detail text not null check (length(detail) <= 300),
  -- The process of the host that runs it.
  process text not null check (length(process) <= 100)
);
create index host_task_of_desktop on host_task (desktop_id, began_at desc);
create index host_task_of_workspace on host_task (workspace_id, began_at desc) where desktop_id is null;
create index host_task_running on host_task (id) where state = 'running';

-- The last line that was taken in of each of the host's spools: it is set by the transaction that takes the line in.
create table host_spool (
  id text primary key check (length(id) between 1 and 64),
  number bigint not null default 0
);

revoke all on host_task, host_spool from public;
grant select on host_task to mc_web;
grant select, insert, delete, update (state, detail) on host_task to mc_worker;
grant select, insert, update (number) on host_spool to mc_worker;
