-- What the agent asked by itself in the turn of a message, each with its own options: the worker writes them.
alter table message add column questions jsonb not null default '[]' check (jsonb_typeof(questions) = 'array');
grant update (questions) on message to mc_worker;

-- What was answered: written by the web process, once; the worker passes it on. Nothing is enforced by it.
create table question_answer (
  message_id text not null references message on delete cascade,
  question text not null,
  option text not null check (length(option) <= 100),
  actor text not null check (length(actor) <= 1000),
  at timestamptz not null default now(),
  primary key (message_id, question)
);
revoke all on question_answer from public;
grant select on question_answer to mc_web, mc_worker;
grant insert (message_id, question, option, actor) on question_answer to mc_web;
