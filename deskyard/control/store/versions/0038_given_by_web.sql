-- Keys and persons that an admin signs for: the worker writes them, within bounds that it cannot leave either. More than
-- that, admins above all, is made at the host, by the owner of the database.

-- Who gives a person what they may, as the audit names them; none: a rule of the provider, or it was not written down yet.
alter table person add column giver text;

grant insert (id, name, role, workspaces, giver) on person to mc_worker;
grant update (role, workspaces, disabled_at, by_rule, rule, granted_at, giver) on person to mc_worker;
create policy worker_makes on person for insert to mc_worker with check (role <> 'admin' and not by_rule);
-- An admin who is there is changed at the host; one who was removed may come back as somebody else.
create policy worker_changes on person for update to mc_worker
  using (role <> 'admin' or disabled_at is not null) with check (role <> 'admin');
-- What somebody who is there may is changed at the host: the worker ends them, and gives anew to who was removed.
create function refuse_of_person_there() returns trigger language plpgsql as $$
begin
  if (new.role, new.workspaces, new.by_rule, new.rule, new.granted_at, new.giver)
      is distinct from (old.role, old.workspaces, old.by_rule, old.rule, old.granted_at, old.giver) then
    raise insufficient_privilege using message = 'what a person may who is there: at the host alone';
  end if;
  return new;
end $$;
create trigger of_nobody_there before update on person for each row
  when (current_user = 'mc_worker' and old.disabled_at is null) execute function refuse_of_person_there();

grant insert (id, name, auth_hash, scopes, workspaces, expires_at) on api_key to mc_worker;
create policy worker_makes on api_key for insert to mc_worker with check (
  not 'admin' = any(scopes) and expires_at <= now() + interval '365 days' and revoked_at is null);
grant insert on key_proof to mc_worker;

-- A link of somebody is a passkey of theirs; who is removed loses passkeys, links, offers and sessions. With an admin the
-- host alone does that.
create function refuse_of_admin() returns trigger language plpgsql security definer set search_path = public as $$
declare
  of_whom text;
begin
  if tg_op = 'DELETE' then of_whom := old.person_id; else of_whom := new.person_id; end if;
  if exists (select from person where id = of_whom and role = 'admin' and disabled_at is null) then
    raise insufficient_privilege using message = format('%s of an admin: at the host alone', tg_table_name);
  end if;
  if tg_op = 'DELETE' then return old; else return new; end if;
end $$;
revoke all on function refuse_of_admin from public;
grant insert (token_hash, person_id, expires_at) on enrolment to mc_worker;
grant delete on passkey, enrolment, mail_offer to mc_worker;
grant select (person_id) on mail_offer to mc_worker;
create trigger of_no_admin before insert or delete on enrolment for each row
  when (current_user = 'mc_worker') execute function refuse_of_admin();
create trigger of_no_admin before delete on passkey for each row
  when (current_user = 'mc_worker') execute function refuse_of_admin();
create trigger of_no_admin before delete on mail_offer for each row
  when (current_user = 'mc_worker') execute function refuse_of_admin();
grant update (ended_at) on session to mc_worker;
-- An account of a provider stays with who was removed, and stands for nobody else who gets their name.
alter table identity add column ended_at timestamptz;
update identity set ended_at = disabled_at from person where person.id = person_id and disabled_at is not null;
grant select (ended_at) on identity to mc_web;
grant select (person_id, ended_at), update (ended_at) on identity to mc_worker;
create policy worker_reads on identity for select to mc_worker using (true);
create policy worker_ends on identity for update to mc_worker using (true) with check (ended_at is not null);
create trigger of_no_admin before update on identity for each row
  when (current_user = 'mc_worker') execute function refuse_of_admin();
create policy worker_ends on session for update to mc_worker using (true) with check (ended_at is not null);
