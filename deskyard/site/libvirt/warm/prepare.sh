#!/bin/sh
# Makes the machine that it runs in a template: nothing in it is its own any more, and nothing of it is on a network.
# Standard input: NETWORK (the network's configuration at a first boot, as JSON, with a MAC that stands for any).
set -eu
# shellcheck disable=SC1091
. /dev/stdin
stop() { for unit in "$@"; do systemctl stop "$unit" 2>/dev/null || true; done; }

# 2: it is done, and complains of something that it could do without.
cloud-init status --wait >/dev/null || [ $? -eq 2 ]

# What has read a secret would share it with every machine: it starts when each has its own.
stop agent-openclaw.service agent-openclaw-secret.service
rm -f /etc/deskyard/agent-openclaw.env
stop ssh.socket ssh.service
rm -f /etc/ssh/ssh_host_*
# What role home_volume keeps with /home; without it the next boot puts the machine's own there.
rm -rf /home/.deskyard/identity
rm -f /var/lib/deskyard/home-volume
stop systemd-networkd.socket systemd-networkd.service

# The network's files as cloud-init itself would write them at a first boot; and for as long as this boot lasts, some
# that fit whatever its NIC's MAC will be. Then systemd-networkd can wait for the NIC with them: it takes an emulated
# machine seconds to start. Its identity to the network is the MAC, as that which it has by its machine is the
# template's; and to be told a name it would start a service.
NETWORK="$NETWORK" python3 - <<'PYTHON'
import json, os, pathlib, re
from cloudinit import stages
init = stages.Init(ds_deps=[])
init.read_cfg()
network = json.loads(os.environ["NETWORK"])
init.distro.apply_network_config(network, bring_up=False)

((nic, facts),) = network["ethernets"].items()
folder, name = pathlib.Path("/run/systemd/network"), facts["set-name"]
folder.mkdir(parents=True, exist_ok=True)
# By cloud-init itself, or by netplan for it.
(written,) = (*pathlib.Path("/etc/systemd/network").glob(f"*-{nic}.network"), *folder.glob(f"*-{nic}.network"))
own, found = re.subn(r"\[Match\]\n(?:.+\n)*", f"[Match]\nName={name}\n", written.read_text(), count=1)
assert found, written
(folder / "00-deskyard.network").write_text(f"{own}\n[DHCPv4]\nClientIdentifier=mac\nUseHostname=no\n")
(folder / "00-deskyard.link").write_text(f"[Match]\nDriver=virtio_net\n\n[Link]\nName={name}\n")
PYTHON
udevadm control --reload
systemctl start systemd-networkd.service

# For as long as this boot lasts SSH starts without a look at its configuration beforehand: it looks at it itself, and
# whoever wants the machine waits for both.
mkdir -p /run/systemd/system/ssh.service.d
printf '[Service]\nExecStartPre=\n' >/run/systemd/system/ssh.service.d/00-deskyard.conf
systemctl daemon-reload

# Booted instead of gone on with, it makes its own of these.
: >/etc/machine-id
stop systemd-random-seed.service
rm -f /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
journalctl --relinquish-var >/dev/null 2>&1 || true
rm -rf /var/log/journal/*
fstrim --all >/dev/null 2>&1 || true
sync
