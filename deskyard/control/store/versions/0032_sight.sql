-- Since when nobody sees the machines of a workspace, and what keeps whoever follows it from that.
alter table workspace add column unseen_since timestamptz, add column unseen_why text not null default '';
insert into alert_rule (kind, number) values ('site.unseen', 1);

-- Both, and what keeps its gateway from answering, are told as they change.
drop trigger event_of_changed_workspace on workspace;
create trigger event_of_changed_workspace after update on workspace for each row
  when ((old.state, old.url, old.egress, old.egress_allow, old.image, old.tiers, old.keys, old.problem, old.gone_at,
      old.silence, old.silent_since, old.unseen_since, old.unseen_why)
    is distinct from
    (new.state, new.url, new.egress, new.egress_allow, new.image, new.tiers, new.keys, new.problem, new.gone_at,
      new.silence, new.silent_since, new.unseen_since, new.unseen_why))
  execute function note_event();

-- Of a request that made no operation the answer is kept, sealed by what its caller alone has; a day long.
alter table idempotency alter column operation_id drop not null,
  add column answer bytea check (octet_length(answer) <= 20000),
  add check ((operation_id is null) = (answer is not null));
create index idempotency_answer on idempotency (actor, created_at) where answer is not null;

-- A workspace's conversations are read in the order in which they began.
create index conversation_of_workspace on conversation (split_part(desktop_id, '.', 1), created_at, id);

-- Which agent takes what is said to a desktop, as it is declared; nothing: it was not read since an upgrade.
alter table desktop add column agent text check (agent in ('openclaw', 'acp', 'none'));
