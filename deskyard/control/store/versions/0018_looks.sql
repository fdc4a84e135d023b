-- Who watches asks for looks by the hour, and keeps the newest of them alone.
grant insert (id, kind, workspace_id, lane, input, actor) on operation to mc_worker;
grant delete on operation to mc_worker;

insert into alert_rule (kind, number) values ('desktop.unwell', 1), ('egress.refused', 100);
