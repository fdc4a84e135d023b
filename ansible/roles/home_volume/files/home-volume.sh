#!/bin/sh
# Puts /home on the disk whose serial number is `home`, if the machine has one: with it home and the machine's SSH host
# keys outlive the system disk. systemd's own programs format a blank disk, check it and let the file system grow.
set -eu
serial=home
# Says that what this system writes to /home belongs on the volume.
moved=/var/lib/deskyard/home-volume
staging=/run/deskyard/home-volume
identity=.deskyard/identity

had="(this system had it; remove $moved to start with what is in it)"

refuse() {
  echo "/home is not there: $1" >&2
  exit 1
}

volume() {
  lsblk --nodeps --noheadings --output PATH,SERIAL | awk -v serial="$serial" '$2 == serial { print $1; exit }'
}

# On a host that starves other devices may take minutes: what is there counts. That it is not there only udev can say.
tries=4
until udevadm settle --timeout=120 || [ -n "$(volume)" ]; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || refuse "this machine's devices are not ready after minutes: start it again when its host has time"
done
device=$(volume)
if [ -z "$device" ]; then
  [ -e "$moved" ] || exit 0
  refuse "no disk has the serial number '$serial', and /home is on it $had"
fi

/usr/lib/systemd/systemd-makefs ext4 "$device"
/usr/lib/systemd/systemd-fsck "$device"
mkdir -p "$staging" "${moved%/*}"
chmod 0700 "$staging"
mount -t ext4 "$device" "$staging"
if [ ! -d "$staging/$identity" ]; then
  [ ! -e "$moved" ] || refuse "$device is another disk, or a blank one $had"
  # A first start, or one that broke off: what the image has in /home, and the keys if this system has some already.
  cp -a /home/. "$staging/"
  install -d -m 0700 "$staging/.deskyard" "$staging/$identity.new"
  if [ -e /etc/ssh/ssh_host_ed25519_key ]; then
    cp -p /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub "$staging/$identity.new/"
  else
    rm -f "$staging/$identity.new/ssh_host_ed25519_key"
    ssh-keygen -q -t ed25519 -N "" -C "" -f "$staging/$identity.new/ssh_host_ed25519_key"
  fi
  sync -f "$staging"
  mv -T "$staging/$identity.new" "$staging/$identity"
fi
cp -p "$staging/$identity/"ssh_host_* /etc/ssh/
touch "$moved"
sync
umount "$staging"
mount -t ext4 "$device" /home
/usr/lib/systemd/systemd-growfs /home
