-- Who watches asks for looks by the hour, and for nothing else: it can write down no other operation, and deletes none but
-- its own looks that are over, of which the newest that went well is kept.
create function ask_for_look(asked text, of_workspace text) returns void
language plpgsql security definer set search_path = public as $$
begin
  delete from operation o where o.workspace_id = of_workspace and o.kind = 'workspace.look' and o.actor = 'watch'
    and o.state in ('done', 'failed', 'cancelled') and o.id <> coalesce((select id from operation
      where workspace_id = of_workspace and kind = 'workspace.look' and state = 'done' order by ended_at desc limit 1), '');
  insert into operation (id, kind, workspace_id, lane, input, actor)
    values (asked, 'workspace.look', of_workspace, 'look:' || of_workspace, '{"leave_idle": true}', 'watch');
  insert into audit_intake (actor, action, target, detail)
    values ('watch', 'workspace.look', of_workspace, jsonb_build_object('operation', asked));
end $$;
revoke all on function ask_for_look from public;
grant execute on function ask_for_look to mc_worker;

insert into alert_rule (kind, number) values ('desktop.unwell', 1), ('egress.refused', 100);
