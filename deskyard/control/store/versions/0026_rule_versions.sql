-- When a rule of alerts was changed last: its version, which whoever changes it has read.
alter table alert_rule add column changed_at timestamptz not null default now();
grant update (changed_at) on alert_rule to mc_web;
