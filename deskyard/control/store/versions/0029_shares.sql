-- The share of a worker's slots that a kind of operation belongs to. What is not named is an answer that people wait for.
create function share_of(kind text) returns text language sql immutable as $$
  select case
    when kind = 'desktop.chat' then 'agents'
    when kind in ('desktop.create', 'desktop.destroy', 'workspace.up') then 'engine'
    when kind in ('desktop.start', 'desktop.stop', 'desktop.restart', 'workspace.start', 'workspace.stop',
      'snapshot.create', 'snapshot.restore') then 'machines'
    when kind in ('backup.run', 'workspace.verify') then 'backups'
    when kind = 'desktop.session' then 'sessions'
    when kind = 'workspace.look' then 'looks'
    when kind in ('desktop.freeze', 'desktop.thaw') then 'stops'
    else 'answers' end
$$;

-- How many of each share a worker runs at once, by its own word.
alter table worker add column slots jsonb not null default '{}';
