-- What admins signed of a rule that asks for two persons, until two of them signed the same: nobody alone loosens it. The
-- worker's account alone writes it.
create table approval_rule_change (
  workspace_id text not null references workspace,
  actor text not null,
  -- The rule that is wanted; nothing: none any more.
  wanted jsonb check (jsonb_typeof(wanted) = 'object'),
  operation_id text not null,
  at timestamptz not null default now(),
  primary key (workspace_id, actor)
);

revoke all on approval_rule_change from public;
grant select on approval_rule_change to mc_web, mc_worker;
grant insert, update, delete on approval_rule_change to mc_worker;
