"""Makes this machine a libvirt host: the role `hypervisor` with what the site says, run on the machine itself."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError, HostError
from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.model.site import Site
from deskyard.plan.egress import denied_networks
from deskyard.site.libvirt.daemon import RUN_BY_SYSTEMD

PLAYBOOK = "host.yml"
SECONDS = 3600.0


def configure(site: Site, *, check: bool = False) -> None:
    """Run the role; with `check`, only say what would change. Refuses before anything is touched."""
    require(site)
    with tempfile.TemporaryDirectory(prefix="deskyard-host-") as folder:
        file = Path(folder) / "variables.json"
        file.write_text(json.dumps(variables(site)))
        program = Path(sys.executable).with_name("ansible-playbook")
        argv = [str(program), "-i", "localhost,", "-c", "local", PLAYBOOK, "-e", f"host_variables={file}"]
        run([*argv, *(["--check", "--diff"] if check else [])], timeout=SECONDS, cwd=tree() / "ansible", on_line=say)


def variables(site: Site) -> dict[str, Any]:
    """The variables that the role must know of a libvirt site; nothing of it is written down a second time."""
    return {
        "hypervisor_kind": "libvirt",
        "hypervisor_denied_networks": list(denied_networks(site)),
        "hypervisor_egress_exceptions": [str(network) for network in site.egress_exceptions],
    }


def require(site: Site) -> None:
    """Raise an error if this machine is none that the role can make a host of this site."""
    if site.backend != "libvirt":
        reason = f"has backend {site.backend}: its hosts are other machines"
        remedy = f"run ansible/{PLAYBOOK} on its nodes with hypervisor_kind: proxmox"
        raise ConfigError("site", site.name, reason, remedy)
    if not RUN_BY_SYSTEMD.exists():
        reason = (
            "systemd does not run this machine, so there are no units that could load rules at boot; "
            "Deskyard's private libvirtd lives in a network namespace of its own instead"
        )
        raise HostError("services", "none", reason, "nothing is to be done here; ./inv site.up starts the private one")
    if os.geteuid() != 0:
        reason = "is not root, who alone may install packages and load rules"
        raise HostError("user", os.geteuid(), reason, "run: sudo ./inv host.configure")
