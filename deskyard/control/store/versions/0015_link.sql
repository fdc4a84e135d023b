-- Who asks gateways writes down what they say, and may no more: it wants, claims and decides nothing.
grant usage on schema public to mc_link;
grant select (id, egress, state, gone_at) on workspace to mc_link;
grant select, insert on approval to mc_link;
-- What a ticket is for stays as it was: who signs an answer later, or second, signs the same.
grant update (state, tries, held, held_until, until, last_at, verdict, decided_by, reason, decided_at, ends_at)
  on approval to mc_link;
grant select, insert, update, delete on anchor to mc_link;
grant select on audit_entry to mc_link;
grant insert (actor, action, target, detail) on audit_intake to mc_link;

revoke insert, update, delete on approval, anchor from mc_worker;

-- A false line of a gateway would accuse it: who asks gateways writes it, nobody else, and that writes nothing else
-- but what desktops wait for, in the name of a desktop.
drop trigger head_by_worker on audit_intake;
drop function only_by_worker();
create function only_by_link() returns trigger language plpgsql as $$
begin
  if new.action = 'gateway.head' and current_user <> 'mc_link' then
    raise insufficient_privilege using message = 'who asks the gateways alone takes in their lines';
  end if;
  if current_user = 'mc_link' and not (
      (new.action = 'gateway.head' and new.actor = 'mission-control')
      or (new.action = 'approval.raised' and new.actor like 'desktop:%')) then
    raise insufficient_privilege using message = 'who asks the gateways takes in what they say, and no more';
  end if;
  return new;
end $$;
create trigger intake_by_link before insert on audit_intake for each row execute function only_by_link();
