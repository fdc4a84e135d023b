create or replace function share_of(kind text) returns text language sql immutable as $$
  select case
    when kind = 'desktop.chat' then 'agents'
    when kind in ('desktop.create', 'desktop.destroy', 'workspace.up', 'workspace.create', 'workspace.destroy') then 'engine'
    when kind in ('desktop.start', 'desktop.stop', 'desktop.restart', 'desktop.pause', 'desktop.resume',
      'desktop.upgrade', 'upgrade.preview', 'workspace.start', 'workspace.stop', 'snapshot.create', 'snapshot.restore',
      'task.begin', 'task.release', 'task.tidy', 'destroy.preview') then 'machines'
    when kind in ('backup.run', 'workspace.verify') then 'backups'
    when kind = 'desktop.session' then 'sessions'
    when kind = 'workspace.look' then 'looks'
    when kind in ('desktop.freeze', 'desktop.thaw') then 'stops'
    else 'answers' end
$$;
