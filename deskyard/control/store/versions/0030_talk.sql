-- Who carries chats hears of which desktop a conversation changed: nothing if that is not known any more.
create function note_talk() returns trigger language plpgsql security definer set search_path = public as $$
declare
  about text;
begin
  if tg_table_name = 'desktop' then
    about := new.id;
  elsif tg_op = 'DELETE' then
    select desktop_id into about from conversation where id = old.conversation_id;
  else
    select desktop_id into about from conversation where id = new.conversation_id;
  end if;
  perform pg_notify('talk', coalesce(about, ''));
  return null;
end $$;

create trigger talk_of_message after insert or update or delete on message for each row execute function note_talk();
-- One that is made anew under the same name shows nothing of the one before.
create trigger talk_of_desktop after update on desktop for each row
  when ((old.gone_at, old.there_since) is distinct from (new.gone_at, new.there_since))
  execute function note_talk();
