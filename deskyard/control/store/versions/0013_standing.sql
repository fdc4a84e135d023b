-- A session that a provider began counts until the provider has to say the same again (null: a passkey began it), and
-- goes on by the name under which the process that asks knows it; the tokens for asking stand in no table.
alter table session add column standing text unique;
alter table session add column confirmed_until timestamptz;

-- Who asks providers goes on with these sessions and ends them: no other.
create function only_by_provider() returns trigger language plpgsql as $$
begin
  if current_user = 'mc_identity' and old.confirmed_until is null then
    raise insufficient_privilege using message = 'a passkey began this session';
  end if;
  return new;
end $$;
create trigger session_by_provider before update on session for each row execute function only_by_provider();

grant select (person_id, standing, confirmed_until, expires_at, ended_at) on session to mc_identity;
grant update (confirmed_until, ended_at) on session to mc_identity;

-- Those that were begun before count no longer than others do without being asked about.
update session set confirmed_until = now() + interval '1 hour'
  where ended_at is null and person_id in (select person_id from identity);
