-- Which sender alerts are mailed by; the server itself stands in a file of the host, with its password. The host alone writes it.
create table mail_server (
  single boolean primary key default true check (single),
  sender text not null
);
grant select on mail_server to mc_web;
