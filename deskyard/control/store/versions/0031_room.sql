-- An operation for which its site had no room waits in the queue: why, until when it is left alone, and how often so far.
alter table operation
  add column waits text,
  add column not_before timestamptz,
  add column refusals integer not null default 0;
grant update (waits, not_before, refusals) on operation to mc_worker;
insert into alert_rule (kind, number) values ('operation.no-room', 10);
