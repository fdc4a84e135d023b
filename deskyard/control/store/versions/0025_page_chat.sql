-- The conversations that the page of a desktop may show: one that is made anew under the same name is another desktop, and
-- shows nothing of the one before.
create function conversations_at_gateway(about text) returns setof conversation
language sql stable security definer set search_path = public as $$
  select c.* from desktop d join conversation c on c.desktop_id = d.id
  where d.id = about and d.gone_at is null and c.created_at >= greatest(d.there_since,
    (select max(o.ended_at) from operation o
      where o.desktop_id = about and o.kind = 'desktop.destroy' and o.state = 'done'))
$$;

-- The one in which a person spoke last, with its last messages, the oldest first; nothing where there is none. An agent
-- that still answers in another does not bring that back.
create function talk_at_gateway(about text, most integer, longest integer) returns jsonb
language sql stable security definer set search_path = public as $$
  select jsonb_build_object('conversation', c.id, 'title', c.title, 'messages',
    (select coalesce(jsonb_agg(jsonb_build_object('id', m.id, 'role', m.role, 'author', m.author,
        'text', left(m.text, longest), 'cut', length(m.text) > longest, 'state', m.state, 'at', m.at,
        'tools', m.tools, 'more_tools', m.more_tools, 'questions', m.questions, 'problem', m.problem) order by m.number),
        '[]')
      from (select * from message where conversation_id = c.id order by number desc limit least(most, 100)) m))
  from (select * from conversations_at_gateway(about) order by last_at desc, id desc limit 20) c
  order by (select max(number) from message where conversation_id = c.id and role = 'person') desc nulls last limit 1
$$;

-- What a person said on the page of a desktop is stored, with its delivery: once, however often it is sent. The answer
-- names both, or what is wrong. Whoever delivers it asks the gateway for the line of its audit that says the same: what is
-- written down here is the word of who asks gateways all day.
create function say_at_gateway(about text, said_by text, request text, line bigint, at_conversation text, said text)
returns jsonb
language plpgsql security definer set search_path = public as $$
declare
  known record;
  talk text := at_conversation;
  stored text := 'ms_' || left(replace(gen_random_uuid()::text, '-', ''), 16);
  delivery text := 'op_' || left(replace(gen_random_uuid()::text, '-', ''), 16);
  hash bytea := sha256(convert_to(said, 'UTF8'));
begin
  if octet_length(said) not between 1 and 8192 or length(said_by) not between 1 and 300
      or length(request) not between 1 and 200 or line < 1 then
    return jsonb_build_object('refused', 'message');
  end if;
  -- The same twice at the same time: the second waits here for the first.
  perform pg_advisory_xact_lock(hashtextextended(said_by || E'\n' || request, 7));
  select i.request_hash, m.id, m.conversation_id into known from idempotency i
    left join message m on m.operation_id = i.operation_id and m.role = 'person'
    where i.actor = said_by and i.key = request order by m.number limit 1;
  if found then
    if known.request_hash <> hash or known.id is null then
      return jsonb_build_object('refused', 'request');
    end if;
    return jsonb_build_object('conversation', known.conversation_id, 'message', known.id);
  end if;
  if not exists (select from desktop where id = about and gone_at is null) then
    return jsonb_build_object('refused', 'desktop');
  end if;
  if (select count(*) from operation where desktop_id = about and kind = 'desktop.chat'
      and state in ('queued', 'running')) >= 20 then
    return jsonb_build_object('refused', 'queue');
  end if;
  if talk is null then
    talk := 'cv_' || left(replace(gen_random_uuid()::text, '-', ''), 16);
    insert into conversation (id, desktop_id, title)
      values (talk, about, left(regexp_replace(btrim(said), '\s+', ' ', 'g'), 80));
  elsif not exists (select from conversations_at_gateway(about) where id = talk) then
    return jsonb_build_object('refused', 'conversation');
  end if;
  insert into message (id, conversation_id, role, author, text, state, operation_id)
    values (stored, talk, 'person', said_by, said, 'queued', delivery);
  insert into operation (id, kind, workspace_id, desktop_id, lane, input, actor)
    values (delivery, 'desktop.chat', split_part(about, '.', 1), about, 'conversation:' || talk,
      jsonb_build_object('conversation', talk, 'message', stored, 'page', jsonb_build_object('request', request,
        'line', line)), said_by);
  insert into idempotency (actor, key, request_hash, operation_id) values (said_by, request, hash, delivery);
  insert into audit_intake (actor, action, target, detail)
    values (said_by, 'desktop.chat', about, jsonb_build_object('operation', delivery, 'by', 'gateway'));
  return jsonb_build_object('conversation', talk, 'message', stored);
end $$;

-- End the turn that runs, or else the one that comes next; whether there was one.
create function interrupt_at_gateway(about text, said_by text, at_conversation text) returns boolean
language plpgsql security definer set search_path = public as $$
declare
  turn text;
begin
  select o.id into turn from operation o where o.lane = 'conversation:' || at_conversation and o.desktop_id = about
    and o.state in ('running', 'queued')
    and exists (select from conversations_at_gateway(about) where id = at_conversation)
    order by o.state desc, o.created_at limit 1;
  if not found then
    return false;
  end if;
  update operation set cancel_requested_at = now() where id = turn and cancel_requested_at is null;
  insert into audit_intake (actor, action, target, detail)
    values (left(said_by, 300), 'conversation.interrupt', at_conversation,
      jsonb_build_object('operation', turn, 'by', 'gateway'));
  return true;
end $$;

revoke all on function conversations_at_gateway, talk_at_gateway, say_at_gateway, interrupt_at_gateway from public;
grant execute on function talk_at_gateway, say_at_gateway, interrupt_at_gateway to mc_link;
