-- Whether machine time ends because nobody looked any more: the machine was not seen to be off.
alter table usage_interval add column unwatched boolean not null default false;
