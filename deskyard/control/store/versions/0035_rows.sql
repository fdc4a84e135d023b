-- Which rows a role may read and write, where its columns say too little. Policies stand on tables that lists do not read:
-- for a table with one the planner estimates no words any more (`like`, order of text), whatever the policy says.

-- When a line was written the database alone says.
revoke insert on audit_intake from mc_web, mc_worker, mc_identity;
revoke select on audit_intake from mc_worker;
grant insert (actor, action, target, detail) on audit_intake to mc_web, mc_worker, mc_identity;

drop trigger intake_by_link on audit_intake;
drop function only_by_link();
alter table audit_intake enable row level security;
create policy recorder_takes on audit_intake for select to mc_recorder using (true);
create policy recorder_took on audit_intake for delete to mc_recorder using (true);
-- Who serves people writes in their names, and nothing that the host, the provider, gateways or the worker say.
create policy web_writes on audit_intake for insert to mc_web with check (
  (actor ~ '^(person|key|enrolment):.' or (actor = 'nobody' and action = 'request.refused')
    -- Where requests are many they are counted together.
    or (actor = 'others' and target = 'others'
      and action in ('request.refused', 'audit.read', 'keys.read', 'people.read', 'sessions.read')))
  and split_part(action, '.', 1) not in ('control', 'gateway', 'provider', 'mail')
  and action not in ('person.link', 'person.remove', 'person.make', 'person.role', 'person.identity', 'key.make',
    'session.over', 'approval.raised', 'operation.wait', 'operation.answer', 'conversation.forget'));
-- A false line of a gateway would accuse it: who asks gateways writes it, nobody else, and that writes nothing else but
-- what desktops wait for, in the name of a desktop.
create policy worker_writes on audit_intake for insert to mc_worker
  with check (action not in ('gateway.head', 'approval.raised'));
create policy link_writes on audit_intake for insert to mc_link with check (
  (action = 'gateway.head' and actor = 'mission-control') or (action = 'approval.raised' and actor like 'desktop:_%'));
create policy identity_writes on audit_intake for insert to mc_identity with check (
  actor = 'provider' and action in ('person.make', 'person.role', 'person.identity', 'session.over'));

-- A key that was revoked stays so: whoever has its secret, and takes the web process, proves nothing by it.
alter table api_key enable row level security;
create policy web_reads on api_key for select to mc_web using (true);
create policy web_changes on api_key for update to mc_web using (revoked_at is null) with check (true);
create policy worker_reads on api_key for select to mc_worker using (true);

-- A session lasts for half a day, also one that was begun by who took the web process.
revoke insert on session from mc_web;
grant insert (id, token_hash, person_id, agent, expires_at, confirmed_until, standing) on session to mc_web;
drop trigger session_by_provider on session;
drop function only_by_provider();
alter table session enable row level security;
create policy web_reads on session for select to mc_web using (true);
create policy web_begins on session for insert to mc_web with check (expires_at <= now() + interval '12 hours');
create policy web_changes on session for update to mc_web using (true);
create policy worker_reads on session for select to mc_worker using (true);
-- Who asks providers knows of sessions that those began, goes on with them and ends them; it lets none be asked no more.
create policy identity_reads on session for select to mc_identity using (confirmed_until is not null);
create policy identity_changes on session for update to mc_identity using (confirmed_until is not null);

-- It is no more to persons than its rules are: never to one whom the host made. Of those it reads for whom an account of a
-- provider stands, or may.
drop trigger person_by_rule on person;
drop function only_by_rule();
alter table person enable row level security;
create policy web_reads on person for select to mc_web using (true);
create policy worker_reads on person for select to mc_worker using (true);
create policy identity_reads on person for select to mc_identity using (
  by_rule or exists (select from identity i where i.person_id = person.id)
  or exists (select from mail_offer o where o.person_id = person.id));
create policy identity_makes on person for insert to mc_identity with check (by_rule);
create policy identity_changes on person for update to mc_identity using (by_rule);

-- An account stands for nobody but persons of rules and whom the host offers to its mail: never, later, for anybody else.
alter table identity enable row level security;
create policy web_reads on identity for select to mc_web using (true);
create policy identity_reads on identity for select to mc_identity using (true);
create policy identity_links on identity for insert to mc_identity with check (
  exists (select from person p where p.id = person_id and p.by_rule)
  or exists (select from mail_offer o where o.person_id = identity.person_id));

-- The tables of lists: looked at only as a row comes, and by no statement that reads.
create function refuse_row() returns trigger language plpgsql as $$
begin
  raise insufficient_privilege using message = format('%s may not write such a row of %s', current_user, tg_table_name);
end $$;
-- Who serves people wants nothing in the name of a process.
create trigger wanted_by_somebody before insert on operation for each row
  when (current_user = 'mc_web' and new.actor !~ '^(person|key|enrolment):.') execute function refuse_row();
-- It stores what is said to agents, and says nothing in theirs.
create trigger said_by_somebody before insert on message for each row
  when (current_user = 'mc_web' and (new.role, new.state, new.author ~ '^(person|key):.')
    is distinct from ('person', 'queued', true)) execute function refuse_row();
