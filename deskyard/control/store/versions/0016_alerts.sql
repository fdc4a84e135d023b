-- When a message was written last: an answer that grows no more is told of.
alter table message add column changed_at timestamptz not null default now();
create function note_change() returns trigger language plpgsql as $$
begin
  new.changed_at := now();
  return new;
end $$;
create trigger change_of_message before update on message for each row execute function note_change();

-- Since when a desktop is there, as far as is known: one that was gone, and whose name is taken again, is another.
alter table desktop add column there_since timestamptz not null default now();
create function note_return() returns trigger language plpgsql as $$
begin
  new.there_since := now();
  return new;
end $$;
create trigger return_of_desktop before update on desktop for each row
  when (old.gone_at is not null and new.gone_at is null) execute function note_return();

-- What was found, and is asked for at each look: the last of each.
create index operation_found on operation (kind, workspace_id, ended_at)
  where state = 'done' and kind in ('workspace.look', 'workspace.verify', 'backup.run');

insert into alert_rule (kind, number) values ('agent.error', 24), ('agent.silent', 15), ('isolation.failed', 0),
  ('desktop.no-backup', 7);
