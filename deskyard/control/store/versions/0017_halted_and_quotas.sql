-- Since when the agent of a desktop stands still, as the worker was told that stopped it. A machine that boots lets it go on,
-- whoever stopped it; where nobody knows, it counts as going on.
alter table desktop add column frozen_at timestamptz;
create function note_thaw() returns trigger language plpgsql as $$
begin
  new.frozen_at := null;
  return new;
end $$;
create trigger thaw_of_desktop before update on desktop for each row
  when (old.frozen_at is not null and (new.gone_at is not null
    or (new.state is distinct from old.state and new.state not in ('ready', 'paused', 'unknown'))))
  execute function note_thaw();

-- Processors and disks are bounded as memory is.
alter table quota add column vcpus bigint check (vcpus >= 0);
alter table quota add column disk_gib bigint check (disk_gib >= 0);
grant update (vcpus, disk_gib) on quota to mc_web;
