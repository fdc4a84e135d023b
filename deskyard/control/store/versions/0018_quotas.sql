-- Processors and disks are bounded as memory is.
alter table quota add column vcpus bigint check (vcpus >= 0);
alter table quota add column disk_gib bigint check (disk_gib >= 0);
grant update (vcpus, disk_gib) on quota to mc_web;
