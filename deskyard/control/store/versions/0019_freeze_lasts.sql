-- Whether a machine that boots halts its agent again: its gateway says so to it for as long as the stop stands.
alter table desktop add column freeze_lasts boolean not null default false;
drop trigger thaw_of_desktop on desktop;
create trigger thaw_of_desktop before update on desktop for each row
  when (old.frozen_at is not null and (new.gone_at is not null
    or (not new.freeze_lasts and new.state is distinct from old.state and new.state not in ('ready', 'paused', 'unknown'))))
  execute function note_thaw();
