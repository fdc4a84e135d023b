-- Whether a moment is at most so long ago; no moment is not. One that lies further ahead is of before the clock was set
-- back: whoever waited for it to pass would wait for as long as the clock had been wrong.
create function recent(moment timestamptz, span interval) returns boolean language sql stable as
  $$ select coalesce(moment > now() - span and moment <= now() + span, false) $$;
insert into alert_rule (kind, number) values ('clock.jumped', 5);
