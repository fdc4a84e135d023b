-- The passkey that began a session: they end together.
alter table session add column passkey_id bytea;
grant insert (passkey_id) on session to mc_web;
grant select (passkey_id) on session to mc_worker;

-- A passkey of an admin ends by the worker, too, who is shown a signature of theirs; never the last one, by which the
-- worker would end an admin.
drop trigger of_no_admin on passkey;
create function refuse_of_admins_last() returns trigger language plpgsql security definer set search_path = public as $$
begin
  -- Two at the same time would each find the other one still there.
  perform 1 from person where id = old.person_id for update;
  if exists (select from person where id = old.person_id and role = 'admin' and disabled_at is null)
    and not exists (select from passkey where person_id = old.person_id and id <> old.id) then
    raise insufficient_privilege using message = 'the last passkey of an admin: at the host alone';
  end if;
  return old;
end $$;
revoke all on function refuse_of_admins_last from public;
create trigger of_no_admins_last before delete on passkey for each row
  when (current_user = 'mc_worker') execute function refuse_of_admins_last();
