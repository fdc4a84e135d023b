-- The names that a gateway closes while the budget of its workspace is spent.
alter table budget add column closes text[] not null default '{}' check (cardinality(closes) <= 50);
grant update (closes) on budget to mc_web;

-- What each gateway was told last: whoever told it writes it down.
create table closing (
  workspace_id text primary key,
  names text[] not null,
  told_at timestamptz not null default now()
);
grant select on closing to mc_web, mc_worker;
grant insert, update, delete on closing to mc_worker;

-- Who watches can have no other names closed than a budget says, and of what it asked for itself the newest is kept.
create function ask_for_closing(asked text, of_workspace text, of_names text[]) returns void
language plpgsql security definer set search_path = public as $$
begin
  if not of_names <@ coalesce((select closes from budget where workspace_id = of_workspace), '{}') then
    raise exception 'the budget of % closes no such names', of_workspace using errcode = 'check_violation';
  end if;
  delete from operation o where o.workspace_id = of_workspace and o.kind = 'egress.close' and o.actor = 'watch'
    and o.state in ('done', 'failed', 'cancelled');
  insert into operation (id, kind, workspace_id, lane, input, actor) values (asked, 'egress.close', of_workspace,
    'close:' || of_workspace, jsonb_build_object('names', to_jsonb(of_names)), 'watch');
  insert into audit_intake (actor, action, target, detail) values ('watch', 'egress.close', of_workspace,
    jsonb_build_object('operation', asked, 'names', to_jsonb(of_names)));
end $$;
revoke all on function ask_for_closing from public;
grant execute on function ask_for_closing to mc_worker;
