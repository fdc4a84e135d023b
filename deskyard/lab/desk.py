"""The host on which a role of a desktop's image is tried: its system without its machine, with a way to the registries.

Debian in a container with real systemd. Authorities that this machine trusts beside the distribution's are trusted
there, too: a company's network may sign what passes it.
"""

import json
from pathlib import Path
from typing import Any

from deskyard.host.places import tree
from deskyard.host.progress import Timings
from deskyard.image.base.artifact import get_artifacts
from deskyard.image.build import npm_packages, program, sources
from deskyard.lab.nspawn import Host, Nic, Yard
from deskyard.lab.tree import make_tree
from deskyard.plan.image.image import base_image, read_image
from deskyard.plan.names import mac_address

DESK = "desk"
NETWORK, GATEWAY_ADDRESS, ADDRESS = "10.92.8.0/24", "10.92.8.1", "10.92.8.2"
PACKAGES = ("libpam-systemd", "sudo")
# The authorities, at the place where `update-ca-certificates` of any distribution takes them up.
FINISH = """
for authority in /usr/local/share/ca-certificates/*.crt; do
  [ ! -e "$authority" ] || cp "$authority" "$1"/usr/local/share/ca-certificates/
done
chroot "$1" update-ca-certificates >/dev/null
"""
WAIT = "timeout 60 sh -c 'until getent hosts deb.debian.org >/dev/null; do sleep 1; done'"


def boot(yard: Yard) -> None:
    """Boot the host, whose tree is made at first use, and open its way out; package lists stay in it."""
    network = f"[Match]\nName=lan\n[Network]\nAddress={ADDRESS}/24\nGateway={GATEWAY_ADDRESS}\n"
    host = Host(DESK, (Nic("lan", mac_address("molecule", DESK), "lan", network),))
    root = make_tree("desk", base_image(tree(), "desktop").base.bootstrap, PACKAGES, (FINISH,))
    yard.create(root, {"lan": [f"{GATEWAY_ADDRESS}/24"]}, [host], "sleep infinity")
    resolver = yard.open_way_out(NETWORK)
    names = f"echo nameserver {resolver} >/etc/resolv.conf; echo 127.0.1.1 {DESK} >>/etc/hosts"
    # Longer than it waits by itself, so that it is the one that says what failed.
    yard.run(DESK, f"{names}; {WAIT}", seconds=120)


def create(folder: Path, platform: dict[str, Any]) -> None:
    """The host of a scenario, and beside it what its role is given; the last of the platform's roles is the scenario's.

    With `archives` npm's packages are installed beforehand, as for a build; else the role installs them itself.
    """
    roles = platform["roles"]
    timings = Timings()
    values: dict[str, Any] = {"desk_before": roles[:-1], "desk_role": roles[-1]}
    if platform.get("archives"):
        full = read_image(tree(), "agent")
        alone = full.model_copy(update={"roles": (roles[-1],)})
        values |= npm_packages.archives(alone, base_image(tree(), "agent").base, timings)
    if "web_terminal" in roles:
        values["image_artifacts_dir"] = str(get_artifacts(base_image(tree(), "desktop"), timings))
    if "computer_use" in roles:
        program.lay_out("computer", folder / "computer")
        values["computer_bundle_dir"] = str(folder / "computer")
    if "mission_control" in roles:
        values |= sources.variables(base_image(tree(), "control"), folder, timings)
    (folder / "variables.json").write_text(json.dumps({**values, **platform.get("variables", {})}))
    boot(Yard(folder))
