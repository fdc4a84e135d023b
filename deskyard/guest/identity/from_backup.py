"""Runs as root in a machine of a backup that becomes another desktop: nothing in it is the first one's own any more.

It has no NIC yet, and never starts again as what it was. Its values come by standard input as NAME=VALUE, each ended by
a NUL: WAS and WAS_MAC (name and MAC of the first one), NAME, MAC, MACHINE_ID, INSTANCE, MANAGER, KEYS (public ones),
SECRETS (paths outside /home, a line each, with wildcards). Services that make a secret when there is none make theirs
as the desktop starts.
"""

import glob
import os
import re
import subprocess
import sys

from deskyard.guest.identity.from_template import (
    CLOUD,
    HOME,
    HOST_KEY,
    NETWORK,
    be_instance,
    files,
    keep_host_key,
    let_in,
    named,
    put,
    replace,
    rewrite,
    text_of,
    values,
)
from deskyard.guest.identity.homes import forget, forget_in_homes

# What has read a secret of the first one, or would write one again.
SERVICES = ("agent-openclaw.service", "agent-openclaw-secret.service", "ssh.socket", "ssh.service")
SECONDS = 120
FIRST_BOOT_SECONDS = 300


def await_cloud_init() -> None:
    """Return once cloud-init is at its end: it writes below its instance until then, and into what is renewed here.

    How it ended is no matter: without a network some of it may fail.
    """
    argv = ["cloud-init", "status", "--wait"]
    try:
        subprocess.run(argv, check=False, timeout=FIRST_BOOT_SECONDS, capture_output=True)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"cloud-init has not ended within {FIRST_BOOT_SECONDS} s") from None


def be_named(cloud: str, instance: str, was: str, name: str) -> None:
    """Have cloud-init find another name than that of before in what it keeps of its instance.

    Names in which that one is a part are others.
    """
    whole = re.compile(rf"(?<![\w.-]){re.escape(was)}(?![\w-])")
    for path in named(cloud, instance):
        text = text_of(path)
        if text is not None and whole.search(text):
            rewrite(path, whole.sub(name, text))


def renew_host_keys(key: str, name: str, home: str | None) -> None:
    """Make a host key, and forget all others, also where /home keeps them."""
    for path in glob.glob(f"{os.path.dirname(key)}/ssh_host_*"):
        os.unlink(path)
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{name}", "-f", key]
    subprocess.run(argv, check=True, timeout=SECONDS)
    if home is not None:
        # What is found there in its place at the next start would be taken for another disk.
        forget([f"{home}/.deskyard/identity", f"{home}/.deskyard/identity.new"])
        keep_host_key(key, home)


def main() -> None:
    """Do it, and have all of it on the disks: the machine is ended without another word."""
    own = values(sys.stdin.buffer.read().decode())
    await_cloud_init()
    for service in SERVICES:
        # Not every image has each.
        subprocess.run(["systemctl", "stop", service], check=False, timeout=SECONDS, capture_output=True)
    renew_host_keys(HOST_KEY, own["NAME"], HOME if os.path.ismount(HOME) else None)
    put("/etc/machine-id", f"{own['MACHINE_ID']}\n")
    put("/etc/hostname", f"{own['NAME']}\n")
    replace(files(NETWORK), own["WAS_MAC"], own["MAC"])
    instance = os.path.basename(os.readlink(f"{CLOUD}/instance"))
    if instance != own["INSTANCE"]:
        be_instance(CLOUD, instance, own["INSTANCE"])
    be_named(CLOUD, own["INSTANCE"], own["WAS"], own["NAME"])
    let_in(own["KEYS"], own["MANAGER"])
    forget([found for path in own["SECRETS"].splitlines() for found in glob.glob(path)])
    forget_in_homes(HOME, own["WAS"])
    os.sync()


if __name__ == "__main__":
    main()
