-- The image that a desktop's system started from, and the one that an upgrade would give it, both as NAME-DIGEST; as its host
-- said when it was asked last.
alter table desktop add column image_now text, add column image_newest text;

create or replace function share_of(kind text) returns text language sql immutable as $$
  select case
    when kind = 'desktop.chat' then 'agents'
    when kind in ('desktop.create', 'desktop.destroy', 'workspace.up') then 'engine'
    when kind in ('desktop.start', 'desktop.stop', 'desktop.restart', 'desktop.pause', 'desktop.resume',
      'desktop.upgrade', 'upgrade.preview', 'workspace.start', 'workspace.stop', 'snapshot.create', 'snapshot.restore',
      'task.begin', 'task.release', 'task.tidy') then 'machines'
    when kind in ('backup.run', 'workspace.verify') then 'backups'
    when kind = 'desktop.session' then 'sessions'
    when kind = 'workspace.look' then 'looks'
    when kind in ('desktop.freeze', 'desktop.thaw') then 'stops'
    else 'answers' end
$$;
