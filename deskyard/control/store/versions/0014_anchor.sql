-- How a gateway's anchors stood when they were last looked at, for alerts: what proves something stands in the gateway.
create table anchor (
  workspace_id text primary key,
  seen_at timestamptz not null default now(),
  number bigint,
  problem text
);
revoke all on anchor from public;
grant select on anchor to mc_web;
grant select, insert, update, delete on anchor to mc_worker;

-- A false line of a gateway would accuse it: who asks gateways writes it, nobody else.
create function only_by_worker() returns trigger language plpgsql as $$
begin
  if new.action = 'gateway.head' and current_user <> 'mc_worker' then
    raise insufficient_privilege using message = 'who asks the gateways alone takes in their lines';
  end if;
  return new;
end $$;
create trigger head_by_worker before insert on audit_intake for each row execute function only_by_worker();
