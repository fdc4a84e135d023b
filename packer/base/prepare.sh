#!/bin/sh
# Runs in the chroot of a freshly bootstrapped Debian: makes it a cloud guest that boots from its own disk.
set -eu

echo 'LABEL=root / ext4 errors=remount-ro 0 1' >/etc/fstab
echo debian >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 debian\n::1 localhost ip6-localhost ip6-loopback\n' >/etc/hosts

cat >/etc/default/grub <<'GRUB'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200"
GRUB_TERMINAL="console serial"
GRUB_DISABLE_OS_PROBER=true
GRUB
# The first configuration is written by hand, because grub-mkconfig wants to see the disk; the next kernel's
# installation replaces it.
kernel=$(basename /boot/vmlinuz-*)
initrd=$(basename /boot/initrd.img-*)
mkdir -p /boot/grub/i386-pc
cp /usr/lib/grub/i386-pc/*.mod /usr/lib/grub/i386-pc/*.lst /boot/grub/i386-pc/
cat >/boot/grub/grub.cfg <<GRUB
search --no-floppy --label root --set=root
serial --unit=0 --speed=115200
terminal_output console serial
linux /boot/$kernel root=LABEL=root ro console=tty0 console=ttyS0,115200
initrd /boot/$initrd
boot
GRUB
cp /usr/lib/grub/i386-pc/boot.img /boot/grub/i386-pc/boot.img
grub-mkimage --format=i386-pc --output=/boot/grub/i386-pc/core.img --prefix='(hd0,gpt2)/boot/grub' \
  biosdisk part_gpt ext2 search search_label normal linux configfile serial terminal

systemctl enable systemd-networkd.service systemd-resolved.service ssh.service
# Emulated guests spend seconds on an RSA key that nobody uses.
printf 'ssh_genkeytypes: [ed25519]\nsystem_info:\n  network:\n    renderers: [networkd]\n' \
  >/etc/cloud/cloud.cfg.d/10-deskyard-base.cfg

# The caches of /usr are fresh: rebuilding them would cost the first boot half a minute when it is emulated.
touch /etc/.updated /var/.updated
rm -f /etc/ssh/ssh_host_* /etc/dpkg/dpkg.cfg.d/99mmdebstrap /var/lib/systemd/random-seed
: >/etc/machine-id
