#!/bin/sh
# The last thing that runs in a build VM. Order matters: what would write again at shutdown is stopped first.
set -eu

# Stopping saves a seed; once stopped, the shutdown saves none.
systemctl stop systemd-random-seed.service || true
# From here on the journal stays in memory.
journalctl --relinquish-var || true

cloud-init clean --logs --seed --configs all
# What cloud-init wrote, not what a role put beside it for the next instance (10-cloud-init-NAME.network.d).
rm -f /etc/systemd/network/10-cloud-init-*.network /etc/systemd/network/10-cloud-init-*.link
rm -f /etc/netplan/50-cloud-init.yaml /etc/sudoers.d/90-cloud-init-users
rm -f /etc/ssh/ssh_host_*
rm -f /var/lib/systemd/random-seed /var/lib/systemd/credential.secret /var/lib/dbus/machine-id
: >/etc/machine-id
echo localhost >/etc/hostname

apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/lib/dpkg/*-old
find /var/log -type f -delete
rm -rf /var/log/journal/* /tmp/* /var/tmp/*
for home in /root /home/*; do
  rm -rf "$home/.bash_history" "$home/.ansible" "$home/.cache" "$home/.python_history" "$home/.wget-hsts"
done
# The build's own key: the connection that runs this is open already and is the last one.
rm -rf /root/.ssh
# Bootstrapping clamps the times of folders, after which their font caches count as old: each first session would read
# every font anew before its first frame.
if command -v fc-cache >/dev/null; then fc-cache --system-only; fi
# The caches of /usr are fresh: rebuilding them would cost the first boot half a minute when it is emulated.
touch /etc/.updated /var/.updated
fstrim / || true
sync
