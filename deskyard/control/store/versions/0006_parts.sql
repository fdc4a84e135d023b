-- The tools that the agent used for an answer, and how many more than are kept. The worker writes them; the web process's
-- grants on messages name columns, and none of these.
alter table message add column tools jsonb not null default '[]' check (jsonb_typeof(tools) = 'array');
alter table message add column more_tools integer not null default 0 check (more_tools >= 0);

-- What the agent says that its turn took: nobody has measured it. All three or none.
alter table message add column claimed_input bigint check (claimed_input between 0 and 1000000000);
alter table message add column claimed_output bigint check (claimed_output between 0 and 1000000000);
alter table message add column claimed_cached bigint check (claimed_cached between 0 and 1000000000);
alter table message add check (num_nulls(claimed_input, claimed_output, claimed_cached) in (0, 3));
create index message_claimed on message (at) where claimed_input is not null;

grant update (tools, more_tools, claimed_input, claimed_output, claimed_cached) on message to mc_worker;
