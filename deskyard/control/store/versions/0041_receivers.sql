-- By it what is too old is found every two seconds, without a look at all of a day.
create index event_old on event (at);
-- Minutes, for which a receiver of alerts took nothing.
insert into alert_rule (kind, number) values ('webhook.failing', 60);
