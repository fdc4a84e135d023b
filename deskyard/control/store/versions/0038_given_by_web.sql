-- Keys and persons that an admin signs for: the worker writes them, within bounds that it cannot leave either. More than
-- that, admins above all, is made at the host, by the owner of the database.

-- Who gives a person what they may, as the audit names them; none: a rule of the provider, or it was not written down yet.
alter table person add column giver text;

-- Up to whom an admin gives by the web, which the host alone says. Who is no admin, or no more, gives nobody anything.
alter table person add column gives text not null default 'viewer' check (gives in ('viewer', 'operator'));
create function bound_gives() returns trigger language plpgsql as $$
begin
  if new.role <> 'admin' or new.disabled_at is not null then new.gives := 'viewer'; end if;
  return new;
end $$;
create trigger bound_gives before insert or update on person for each row execute function bound_gives();
-- Whether somebody, as the audit names them, is an admin whom the host lets give more than viewers and small keys.
create function gives_more(who text) returns boolean language sql stable security definer set search_path = public as $$
  select exists (select from person
    where 'person:' || name = who and role = 'admin' and disabled_at is null and gives = 'operator')
$$;
revoke all on function bound_gives, gives_more from public;
grant execute on function gives_more to mc_worker;

grant insert (id, name, role, workspaces, giver) on person to mc_worker;
grant update (role, workspaces, disabled_at, by_rule, rule, granted_at, giver) on person to mc_worker;
create policy worker_makes on person for insert to mc_worker with check (
  not by_rule and (role = 'viewer' or (role = 'operator' and gives_more(giver))));
-- An admin who is there is changed at the host; one who was removed may come back as somebody else.
create policy worker_changes on person for update to mc_worker
  using (role <> 'admin' or disabled_at is not null)
  with check (role <> 'admin' and (disabled_at is not null or role = 'viewer' or gives_more(giver)));
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

alter table api_key add column giver text;
grant insert (id, name, auth_hash, scopes, workspaces, expires_at, giver) on api_key to mc_worker;
create policy worker_makes on api_key for insert to mc_worker with check (
  not 'admin' = any(scopes) and expires_at <= now() + interval '365 days' and revoked_at is null
  and (gives_more(giver) or (scopes <@ '{read,desktops:write,chat,approvals:read}'
    and expires_at <= now() + interval '30 days')));
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
alter table enrolment add column giver text;
create function refuse_of_operator() returns trigger language plpgsql security definer set search_path = public as $$
begin
  if not gives_more(new.giver) and exists (select from person where id = new.person_id and role <> 'viewer') then
    raise insufficient_privilege using message = 'a link of who is more than a viewer: see control.person --gives';
  end if;
  return new;
end $$;
revoke all on function refuse_of_operator from public;
grant insert (token_hash, person_id, expires_at, giver) on enrolment to mc_worker;
create trigger of_viewers before insert on enrolment for each row
  when (current_user = 'mc_worker') execute function refuse_of_operator();
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
