-- In which workspaces a person is somebody (null: in all), and whether a rule of the declared provider made them.
alter table person add column workspaces text[];
alter table person add column by_rule boolean not null default false;

-- The accounts of a provider that are persons here: by issuer and subject alone, which change no hands.
create table identity (
  issuer text not null,
  subject text not null,
  person_id text not null references person,
  linked_at timestamptz not null default now(),
  primary key (issuer, subject)
);

-- For whom the host lets an account with this verified mail stand: once, then the row is gone.
create table mail_offer (
  mail text primary key check (mail = lower(mail)),
  person_id text not null unique references person
);

-- Who asks providers is no more to persons than its rules are: never to one whom the host made.
create function only_by_rule() returns trigger language plpgsql as $$
begin
  if current_user = 'mc_identity' and not (new.by_rule and (tg_op = 'INSERT' or old.by_rule)) then
    raise insufficient_privilege using message = 'the host alone makes and changes this person';
  end if;
  return new;
end $$;
create trigger person_by_rule before insert or update on person for each row execute function only_by_rule();

revoke all on identity, mail_offer from public;
grant usage on schema public to mc_identity;
grant select on person, identity, mail_offer to mc_identity;
grant insert (id, name, role, workspaces, by_rule) on person to mc_identity;
grant update (role, workspaces) on person to mc_identity;
grant insert (issuer, subject, person_id) on identity to mc_identity;
grant delete on mail_offer to mc_identity;
grant insert on audit_intake to mc_identity;
