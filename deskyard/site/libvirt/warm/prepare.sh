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

# The network's files as cloud-init itself would write them at a first boot.
NETWORK="$NETWORK" python3 - <<'PYTHON'
import json, os
from cloudinit import stages
init = stages.Init(ds_deps=[])
init.read_cfg()
init.distro.apply_network_config(json.loads(os.environ["NETWORK"]), bring_up=False)
PYTHON

# Booted instead of gone on with, it makes its own of these.
: >/etc/machine-id
stop systemd-random-seed.service
rm -f /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
journalctl --relinquish-var >/dev/null 2>&1 || true
rm -rf /var/log/journal/*
fstrim --all >/dev/null 2>&1 || true
sync
