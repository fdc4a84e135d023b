-- As of when the counts of a workspace's gateway are known.
alter table workspace add column traffic_read_at timestamptz;

-- What a gateway counted between a desktop and a name on a day (UTC). Kept as machine time is, also of what is gone; the
-- worker's account alone writes it, and takes nothing away.
create table traffic (
  workspace_id text not null,
  desktop_id text not null,
  day date not null,
  name text not null check (length(name) between 1 and 255),
  connections bigint not null check (connections between 0 and 1000000000000000),
  sent bigint not null check (sent between 0 and 1000000000000000),
  received bigint not null check (received between 0 and 1000000000000000),
  -- In this order: whether a desktop reached a name before is asked for at each look.
  primary key (desktop_id, name, day)
);
create index traffic_of_day on traffic (day, desktop_id);
create index traffic_of_workspace on traffic (workspace_id, day);

revoke all on traffic from public;
grant select on traffic to mc_web, mc_worker;
grant insert, update (connections, sent, received) on traffic to mc_worker;

insert into alert_rule (kind, number) values ('egress.new-name', 7), ('egress.unusual', 10);
