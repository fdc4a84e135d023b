#!/bin/sh
# Makes a machine that goes on from a template itself, before it has a NIC.
# Standard input: TEMPLATE, TEMPLATE_MAC (what stands in their place), NAME, MAC, NIC (its name), MACHINE_ID,
# INSTANCE, MANAGER, KEYS (public ones), SEED (random), EPOCH.
# Whoever wants the machine waits for this: an emulated one takes a quarter of a second for each program that is started,
# and a second for each question to systemd.
set -eu
# shellcheck disable=SC1091
. /dev/stdin
date --utc --set "@$EPOCH" >/dev/null
printf '%s' "$SEED" >/dev/urandom
# Until its kernel has seen that it is another machine it draws the random numbers of its siblings: no keys before that.
tries=50
until dmesg | grep -q 'crng reseeded due to virtual machine fork'; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || { echo "its kernel did not draw new random numbers" >&2; exit 1; }
  sleep 0.2
done

printf '%s\n' "$MACHINE_ID" >/etc/machine-id
printf '%s\n' "$NAME" >/etc/hostname
printf '%s\n' "$NAME" >/proc/sys/kernel/hostname

ssh-keygen -q -t ed25519 -N '' -C "root@$NAME" -f /etc/ssh/ssh_host_ed25519_key
# As role home_volume keeps them: with /home they outlive the system disk.
if mountpoint -q /home; then
  install -d -m 0700 /home/.deskyard /home/.deskyard/identity.new
  cp -p /etc/ssh/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key.pub /home/.deskyard/identity.new/
  sync -f /home
  mv -T /home/.deskyard/identity.new /home/.deskyard/identity
  : >/var/lib/deskyard/home-volume
fi
account=$(getent passwd "$MANAGER")
IFS=: read -r _ _ _ _ _ home _ <<ACCOUNT
$account
ACCOUNT
install -d -m 0700 -o "$MANAGER" -g "$MANAGER" "$home/.ssh"
printf '%s\n' "$KEYS" | install -m 0600 -o "$MANAGER" -g "$MANAGER" /dev/stdin "$home/.ssh/authorized_keys"

# The kernel has that of the template's boot.
read -r boot </proc/sys/kernel/random/uuid
printf '%s\n' "$boot" >/run/deskyard-boot-id
mount --bind /run/deskyard-boot-id /proc/sys/kernel/random/boot_id

# Its seed is another disc than the one that was looked at.
blockdev --flushbufs /dev/vdb
grep -rlZ "$TEMPLATE_MAC" /etc/systemd/network /etc/netplan /etc/udev/rules.d 2>/dev/null |
  xargs -0 -r sed -i "s/$TEMPLATE_MAC/$MAC/g"
if command -v netplan >/dev/null; then netplan generate; fi

# For cloud-init the first boot of this instance is over: what it does once is not done again.
cd /var/lib/cloud
mv "instances/$TEMPLATE" "instances/$INSTANCE"
ln -sfn "/var/lib/cloud/instances/$INSTANCE" instance
rm -f instance/obj.pkl
for file in instance-id previous-instance-id; do printf '%s\n' "$INSTANCE" >"data/$file"; done
# Until it has read its seed the next boot takes the name from what was read last.
sed -i "s/$TEMPLATE/$NAME/g" /etc/hosts data/previous-hostname data/set-hostname instance/*.txt instance/*.txt.i
sync

# Whoever waits for its routes comes in by SSH next: it is there before them.
if [ -L /etc/systemd/system/sockets.target.wants/ssh.socket ]; then unit=ssh.socket; else unit=ssh.service; fi
systemctl start "$unit"

# With its NIC, which comes next, the network does: systemd-networkd waits for it. What else starts would only take
# the processor from that. The agent waits for whoever holds its pipes, so this lets go of them.
(
  exec </dev/null >/dev/null 2>&1
  set +e
  /usr/lib/systemd/systemd-networkd-wait-online --interface="$NIC" --timeout=120
  # Makes its secret first.
  for link in /etc/systemd/system/*.wants/agent-openclaw.service; do
    if [ -L "$link" ]; then systemctl start --no-block agent-openclaw.service; fi
  done
  # What had read the template's identity reads its own, behind all that answers somebody.
  systemctl restart systemd-journald.service
  journalctl --flush
  systemctl start systemd-random-seed.service
  /usr/lib/systemd/systemd-random-seed save
  sync
) &
