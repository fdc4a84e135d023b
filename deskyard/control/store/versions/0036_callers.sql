-- What the web process wants and sets: in the name of somebody who is there, at the time of the database, and with a line
-- of the audit that the database writes. These are triggers and no policies, since lists read most of the tables.

-- Whether a caller, as the audit names it, is a person or a key that the host made; `still`: and may come in now.
create function is_somebody(actor text, still boolean) returns boolean
language sql stable security definer set search_path = public as $$
  select case split_part(actor, ':', 1)
    when 'key' then exists (select from api_key where id = substring(actor from '[^:]*$')
      and actor = 'key:' || name || ':' || id and (not still or (revoked_at is null and expires_at > now())))
    when 'person' then exists (
      select from person where name = substr(actor, 8) and (not still or disabled_at is null))
    when 'enrolment' then exists (
      select from person where name = substr(actor, 11) and (not still or disabled_at is null))
    else false end
$$;
revoke all on function is_somebody from public;
-- Whoever inserts a message is looked at, if only to find that it is not the web process.
grant execute on function is_somebody to mc_web, mc_worker;

create function refuse_nobody() returns trigger language plpgsql as $$
begin
  raise invalid_authorization_specification using message = format('%s: in the name of nobody', tg_table_name);
end $$;

-- In whose name the web process sets something, by its own word in this transaction; `still`: and may come in now.
create function setter(still boolean default true) returns text language plpgsql stable security definer set search_path = public as $$
declare
  who text := coalesce(current_setting('deskyard.caller', true), '');
begin
  if not is_somebody(who, still) then
    raise invalid_authorization_specification using message = format('%L is nobody who may set anything', who);
  end if;
  return who;
end $$;
revoke all on function setter from public;

-- Operations, messages and answers say by themselves in whose name they are.
drop trigger wanted_by_somebody on operation;
create trigger wanted_by_somebody before insert on operation for each row
  when (current_user = 'mc_web' and not is_somebody(new.actor, true)) execute function refuse_nobody();
create trigger said_by_nobody before insert on message for each row
  when (current_user = 'mc_web' and not is_somebody(new.author, true)) execute function refuse_nobody();
create trigger answered_by_nobody before insert on question_answer for each row
  when (current_user = 'mc_web' and not is_somebody(new.actor, true)) execute function refuse_nobody();

-- What a row says of who set it, and when, the database says. What is over stays so, from the same moment on.
create function stamp() returns trigger language plpgsql security definer set search_path = public as $$
begin
  case tg_table_name
    when 'budget', 'quota' then
      new.actor := setter();
      -- Who waited for another's change began before it, and is later all the same.
      new.changed_at := clock_timestamp();
    when 'tier_price' then
      new.actor := setter();
    when 'alert_rule' then
      new.changed_at := clock_timestamp();
    when 'alert' then
      if old.acknowledged_at is null and new.acknowledged_at is not null then
        new.acknowledged_at := now();
        new.acknowledged_by := setter();
      else
        new.acknowledged_at := old.acknowledged_at;
      end if;
      if new.silenced_until > now() + interval '367 days' then
        raise insufficient_privilege using message = 'an alert is silent for a year at most';
      end if;
    when 'webhook' then
      if tg_op = 'INSERT' then
        new.actor := setter();
      else
        new.gone_at := coalesce(old.gone_at, now());
      end if;
    when 'delivery' then
      -- Nobody is told of an alert that never was.
      new.kind := 'webhook.test';
      new.payload := jsonb_build_object('actor', setter());
    when 'api_key' then
      -- Behind it a key that revokes itself may come in no more.
      perform setter();
      new.revoked_at := coalesce(old.revoked_at, now());
    when 'session' then
      new.ended_at := coalesce(old.ended_at, now());
    when 'operation' then
      new.cancel_requested_at := coalesce(old.cancel_requested_at, now());
  end case;
  return new;
end $$;

create trigger stamp before insert or update on budget for each row
  when (current_user = 'mc_web') execute function stamp();
create trigger stamp before insert or update on quota for each row
  when (current_user = 'mc_web') execute function stamp();
create trigger stamp before insert on tier_price for each row when (current_user = 'mc_web') execute function stamp();
create trigger stamp before update on alert_rule for each row when (current_user = 'mc_web') execute function stamp();
create trigger stamp before update on alert for each row when (current_user = 'mc_web') execute function stamp();
create trigger stamp before insert or update on webhook for each row
  when (current_user = 'mc_web') execute function stamp();
create trigger stamp before insert on delivery for each row when (current_user = 'mc_web') execute function stamp();
create trigger stamp before update of revoked_at on api_key for each row
  when (current_user = 'mc_web') execute function stamp();
create trigger stamp before update of ended_at on session for each row
  when (current_user = 'mc_web') execute function stamp();
create trigger stamp before update of cancel_requested_at on operation for each row
  when (current_user = 'mc_web') execute function stamp();

-- A line of the audit: its action, the column of its target, and the columns of its detail by their names there.
create function note_setting() returns trigger language plpgsql security definer set search_path = public as $$
declare
  found jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  insert into audit_intake (actor, action, target, detail)
    select setter(tg_table_name <> 'api_key'), tg_argv[0], found ->> tg_argv[1],
      coalesce(jsonb_object_agg(key, case when tg_op = 'DELETE' then null else found -> value end), '{}')
    from jsonb_each_text(tg_argv[2]::jsonb);
  return null;
end $$;

create trigger note_setting after insert or update or delete on budget for each row when (current_user = 'mc_web')
  execute function note_setting('budget.set', 'workspace_id',
    '{"microsPerMonth": "micros_per_month", "bytesPerMonth": "bytes_per_month", "closes": "closes"}');
create trigger note_setting after insert or update or delete on quota for each row when (current_user = 'mc_web')
  execute function note_setting('quota.set', 'subject', '{"desktops": "desktops", "vcpus": "vcpus",
    "memory_mib": "memory_mib", "disk_gib": "disk_gib", "micros_per_day": "micros_per_day"}');
create trigger note_setting after insert on tier_price for each row when (current_user = 'mc_web')
  execute function note_setting('price.set', 'tier', '{"microsPerHour": "micros_per_hour"}');
create trigger note_setting after update on alert_rule for each row when (current_user = 'mc_web')
  execute function note_setting('alert-rule.set', 'kind', '{"enabled": "enabled", "number": "number"}');
create trigger note_acknowledged after update of acknowledged_at on alert for each row when (current_user = 'mc_web')
  execute function note_setting('alert.acknowledge', 'id', '{"rule": "rule", "object": "object"}');
create trigger note_silenced after update of silenced_until on alert for each row when (current_user = 'mc_web')
  execute function note_setting('alert.silence', 'id', '{"rule": "rule", "object": "object", "until": "silenced_until"}');
create trigger note_made after insert on webhook for each row when (current_user = 'mc_web')
  execute function note_setting('webhook.make', 'id', '{}');
create trigger note_removed after update on webhook for each row when (current_user = 'mc_web')
  execute function note_setting('webhook.remove', 'id', '{}');
create trigger note_tested after insert on delivery for each row when (current_user = 'mc_web')
  execute function note_setting('webhook.test', 'webhook_id', '{"delivery": "id"}');
create trigger note_revoked after update of revoked_at on api_key for each row when (current_user = 'mc_web')
  execute function note_setting('key.revoke', 'id', '{}');
create trigger note_ended after update of ended_at on session for each row when (current_user = 'mc_web')
  execute function note_setting('session.end', 'id', '{}');

-- The lines of what is wanted and said.
create function note_wanted() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into audit_intake (actor, action, target, detail) values (new.actor, new.kind,
    coalesce(new.desktop_id, new.workspace_id, new.id), jsonb_build_object('operation', new.id));
  return null;
end $$;
create trigger note_wanted after insert on operation for each row
  when (current_user = 'mc_web') execute function note_wanted();

create function note_cancelled() returns trigger language plpgsql security definer set search_path = public as $$
begin
  if new.kind = 'desktop.chat' then
    insert into audit_intake (actor, action, target, detail) values (setter(), 'conversation.interrupt',
      coalesce(new.input ->> 'conversation', new.id), jsonb_build_object('operation', new.id));
  else
    insert into audit_intake (actor, action, target) values (setter(), 'operation.cancel', new.id);
  end if;
  return null;
end $$;
create trigger note_cancelled after update of cancel_requested_at on operation for each row
  when (current_user = 'mc_web') execute function note_cancelled();

create function note_begun() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into audit_intake (actor, action, target, detail)
    select 'person:' || name, 'session.begin', new.id, jsonb_build_object('agent', new.agent,
      'by', case when new.confirmed_until is null then 'passkey' else 'provider' end)
    from person where id = new.person_id;
  return null;
end $$;
create trigger note_begun after insert on session for each row
  when (current_user = 'mc_web') execute function note_begun();

create function note_answer() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into audit_intake (actor, action, target, detail)
    select new.actor, 'question.answer', c.desktop_id, jsonb_build_object('conversation', c.id,
      'message', m.id, 'question', new.question, 'option', new.option)
    from message m join conversation c on c.id = m.conversation_id where m.id = new.message_id;
  return null;
end $$;
create trigger note_answer after insert on question_answer for each row
  when (current_user = 'mc_web') execute function note_answer();

revoke all on function stamp, note_setting, note_wanted, note_cancelled, note_begun, note_answer from public;

-- What a stamp says, the web process does not.
revoke insert, update on budget, quota from mc_web;
revoke insert on tier_price, webhook, delivery from mc_web;
revoke update (changed_at) on alert_rule from mc_web;
revoke update (acknowledged_by) on alert from mc_web;
grant insert (workspace_id, micros_per_month, bytes_per_month, closes) on budget to mc_web;
grant update (micros_per_month, bytes_per_month, closes) on budget to mc_web;
grant insert (subject, desktops, vcpus, memory_mib, disk_gib, micros_per_day) on quota to mc_web;
grant update (desktops, vcpus, memory_mib, disk_gib, micros_per_day) on quota to mc_web;
grant insert (tier, micros_per_hour) on tier_price to mc_web;
grant insert (id, url) on webhook to mc_web;
grant insert (id, webhook_id) on delivery to mc_web;

-- By itself it writes only of what leaves no row: what was read, refused or asked for with a signature. Of all else the
-- lines are the database's, so that none is missing and none is false.
drop policy web_writes on audit_intake;
create policy web_writes on audit_intake for insert to mc_web with check (
  (action in ('request.refused', 'audit.read', 'keys.read', 'people.read', 'sessions.read', 'link.read', 'audit.export',
     'conversation.export', 'conversations.export', 'retention.want', 'approval-rule.want', 'approval.answer')
   and (is_somebody(actor, false) or (actor = 'nobody' and action = 'request.refused')))
  -- Where requests are many they are counted together.
  or (actor = 'others' and target = 'others'
    and action in ('request.refused', 'audit.read', 'keys.read', 'people.read', 'sessions.read')));
