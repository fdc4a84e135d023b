-- The mark of the program that does an operation (see deskyard/host/offspring.py): written down before that is told what
-- to do, so that whoever goes on finds all that it started. Who reads it, as the web process may, can give it to nothing:
-- it is the hash of what that program has in its environment. `remains` names what of it the kernel does not end.
alter table operation
  add column program text,
  add column remains text,
  add column force_requested_at timestamptz;
grant update (program, remains) on operation to mc_worker;
grant update (force_requested_at) on operation to mc_web;

-- From when on what was asked to stop, and has not, may be ended by force.
create function force_from(asked timestamptz) returns timestamptz language sql immutable as
  $$ select asked + interval '15 seconds' $$;

create function stamp_force() returns trigger language plpgsql as $$
begin
  if old.force_requested_at is not null then
    new.force_requested_at := old.force_requested_at;
  elsif force_from(old.cancel_requested_at) <= now() then
    new.force_requested_at := now();
  else
    raise insufficient_privilege using message = 'an operation is ended by force only when it was asked to stop before';
  end if;
  return new;
end $$;
create trigger stamp_force before update of force_requested_at on operation for each row
  when (current_user = 'mc_web') execute function stamp_force();

create function note_forced() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into audit_intake (actor, action, target) values (setter(), 'operation.force', new.id);
  return null;
end $$;
create trigger note_forced after update of force_requested_at on operation for each row
  when (current_user = 'mc_web') execute function note_forced();
revoke all on function stamp_force, note_forced from public;

-- The names that were refused to a desktop that has been gone for 90 days: the worker takes no other away, since none may be
-- new twice to a desktop that is there, or comes back.
create function forget_refused_names() returns bigint language sql security definer set search_path = public as $$
  with forgotten as (
    delete from refused_name r using desktop d
    where d.id = r.desktop_id and d.gone_at < now() - interval '90 days'
    returning 1)
  select count(*) from forgotten
$$;
revoke all on function forget_refused_names from public;
grant execute on function forget_refused_names to mc_worker;

drop trigger event_of_operation on operation;
-- A renewed lease is no news.
create trigger event_of_operation after update on operation for each row
  when ((old.state, old.attempt, old.cancel_requested_at, old.force_requested_at, old.remains) is distinct from
    (new.state, new.attempt, new.cancel_requested_at, new.force_requested_at, new.remains))
  execute function note_event();
