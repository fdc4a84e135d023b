-- The day (UTC) on which a gateway was known to refuse a name to a desktop for the first time. Moments are forgotten; this
-- is not, so that no name is new twice. Kept also of what is gone; the worker's account alone writes it, and takes nothing
-- away.
create table refused_name (
  workspace_id text not null,
  desktop_id text not null,
  name text not null check (length(name) between 1 and 253),
  day date not null,
  primary key (desktop_id, name)
);
create index refused_name_of_day on refused_name (day, desktop_id);

revoke all on refused_name from public;
grant select, insert on refused_name to mc_worker;

-- What is known already is not new.
insert into refused_name
select workspace_id, desktop_id, name, min(day) from (
  select workspace_id, desktop_id, (at at time zone 'utc')::date as day,
    lower(split_part(substring(key from '^[^ ]+ [^ ]+ (.*)$'), ':', 1)) as name
  from moment where source = 'egress') as refusal
where length(name) <= 253 and name ~ '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$'
group by 1, 2, 3;

-- How much a browser wants that it does not get differs from desktop to desktop: whoever wants to hear of it says so.
insert into alert_rule (kind, number, enabled) values ('egress.new-refused', 1, false);
-- It was for how many days a desktop has to be known; those are seven, and the number is of new names.
update alert_rule set number = 1 where kind = 'egress.new-name';
