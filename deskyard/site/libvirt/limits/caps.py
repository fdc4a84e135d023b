"""Which caps of a tier this machine cannot hold its machines to, and why: found by trying what libvirt would do.

Without this a machine with such a cap would be defined and then fail to start.
"""

import os
import re
from pathlib import Path

from deskyard.host.command import run
from deskyard.site.libvirt import daemon

CPU, NETWORK = "cpu_percent", "network_mib_per_second"
REMEDIES = {
    CPU: "run ./inv site.down, then ./inv site.up; if that does not help, mount the control groups of the kernel",
    NETWORK: "load the modules sch_htb, sch_sfq, cls_u32 and act_police (modprobe), or leave the cap out",
}
# As libvirt's virnetdevbandwidth.c does with a machine's port, here on a NIC of a network of its own.
TRY = """
ip link add probe type veth peer name other
ip link set probe up
tc qdisc add dev probe root handle 1: htb default 1
tc class add dev probe parent 1: classid 1:1 htb rate 1mbit
tc qdisc add dev probe parent 1:1 handle 2: sfq perturb 10
tc qdisc add dev probe ingress
tc filter add dev probe parent ffff: protocol all u32 match u32 0 0 police rate 1mbit burst 64kb mtu 64kb drop flowid :1
"""
GROUPS = re.compile(r"^\S+ \S+ cgroup2? \S+", re.M)


def not_held() -> dict[str, str]:
    """The caps that cannot be held here, by the names of a tier, each with its reason."""
    found = {CPU: _processor(), NETWORK: _network()}
    return {cap: reason for cap, reason in found.items() if reason is not None}


def not_tried() -> list[str]:
    """The caps of which nobody but root can find out whether they are held."""
    return [NETWORK] if os.geteuid() != 0 else []


def _processor() -> str | None:
    """The daemon has to see the control groups; one that an earlier version started does not."""
    if daemon.namespace() is None:
        return None
    for pid_file in daemon.DAEMON_PID_FILES:
        try:
            mounts = Path(f"/proc/{int(pid_file.read_text())}/mounts").read_text()
        except (OSError, ValueError):
            continue
        return None if GROUPS.search(mounts) else "the hypervisor was started without the control groups"
    return None


def _network() -> str | None:
    """Only root can try; for others libvirt says it when the machine starts."""
    if NETWORK in not_tried():
        return None
    tried = run(["unshare", "--net", "sh", "-ec", TRY], timeout=20, check=False)
    if tried.code == 0:
        return None
    said = (tried.stderr.strip().splitlines() or ["no reason was given"])[0]
    return f"the kernel cannot slow a machine's port down: {said}"
