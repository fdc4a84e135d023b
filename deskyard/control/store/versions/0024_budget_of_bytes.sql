-- How many bytes a gateway may count in a month, beside what machine time may cost: either bound, or both.
alter table budget alter column micros_per_month drop not null;
alter table budget add column bytes_per_month bigint check (bytes_per_month between 1 and 1000000000000000);
alter table budget add constraint budget_has_a_bound check (num_nonnulls(micros_per_month, bytes_per_month) > 0);
grant update (bytes_per_month) on budget to mc_web;

-- The month of a workspace is added up at each look by the rules: out of the index alone.
drop index traffic_of_workspace;
create index traffic_of_workspace on traffic (workspace_id, day) include (sent, received);
