-- By which rule of the provider a person has role and workspaces (null: by the host), and since when (null: not known).
alter table person add column rule text;
alter table person add column granted_at timestamptz;
alter table person alter column granted_at set default now();

grant insert (rule), update (rule, granted_at) on person to mc_identity;
-- Whether an account of the provider is somebody's or is offered to be; not which.
grant select (person_id) on identity, mail_offer to mc_web;
