"""What a running gateway is told: its settings and its certificate, over SSH with the host key pinned first."""

import datetime
import json
import time
from pathlib import Path
from typing import Any, ClassVar

from deskyard.errors import SiteError
from deskyard.run import certificate_authority, guest_agent
from deskyard.run.ssh_link import GATEWAY, SshLink
from stacks.libvirt.kind import CANCELLATION, Kind, gone_is_fine
from stacks.libvirt.values import Values

# An emulated gateway boots in two to nine minutes, depending on what else boots.
BOOT_SECONDS = 1800.0
APPLY_SECONDS = 600.0
RENEW_BEFORE = datetime.timedelta(days=30)
PROGRAM = ("sudo", "deskyard-gateway")


class GatewaySettingsKind(Kind):
    """`deskyard:libvirt:GatewaySettings`: changed in place, without touching machines."""

    replaces: ClassVar[frozenset[str]] = frozenset({"site", "workspace", "domain"})
    computed: ClassVar[tuple[str, ...]] = ("host_key", "certificate_expires")

    def stale(self, state: Values) -> list[str]:
        """A certificate near its end is renewed."""
        expires = state.get("certificate_expires")
        if not isinstance(expires, str):
            return []
        left = datetime.datetime.fromisoformat(expires) - datetime.datetime.now(datetime.UTC)
        return ["certificate_expires"] if left < RENEW_BEFORE else []

    def create(self, link: Any, inputs: Values) -> tuple[str, Values]:
        """Wait for the gateway, pin its host key, then hand over settings and certificate."""
        machine = link.lookupByName(inputs["domain"])
        deadline = time.monotonic() + BOOT_SECONDS
        guest_agent.wait(machine, BOOT_SECONDS, CANCELLATION.pause)
        ssh = SshLink(inputs["site"], inputs["workspace"])
        settings = inputs["settings"]
        desktops = [(desktop["name"], desktop["address"]) for desktop in settings["desktops"]]
        ssh.write_config(settings["uplink_address"], desktops)
        key = _host_key(machine, deadline)
        ssh.pin(GATEWAY, key)
        ssh.wait(GATEWAY, deadline - time.monotonic(), CANCELLATION.pause)
        ssh.run(GATEWAY, [*PROGRAM, "apply"], stdin=json.dumps(settings), timeout=APPLY_SECONDS)
        chain = _certificate(ssh, inputs)
        ssh.run(GATEWAY, [*PROGRAM, "certificate"], stdin=chain, timeout=APPLY_SECONDS)
        expires = certificate_authority.expires(chain).isoformat()
        return f"{inputs['site']}/{inputs['workspace']}", {"host_key": key, "certificate_expires": expires}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """They live and die with the gateway; what is in it is not asked: it may be off."""
        found = None
        with gone_is_fine():
            found = link.lookupByName(state["domain"])
        return None if found is None else state

    def update(self, link: Any, identity: str, state: Values, inputs: Values) -> Values:
        """Hand everything over again; the gateway changes only what differs."""
        return self.create(link, inputs)[1]

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Forget the pinned keys; the gateway itself goes with its machine."""
        ssh = SshLink(state["site"], state["workspace"])
        for path in (ssh.config, ssh.known_hosts):
            path.unlink(missing_ok=True)


def _host_key(machine: Any, deadline: float) -> str:
    """The agent can answer before the first boot has made the host keys."""
    while True:
        try:
            return guest_agent.host_key(machine)
        except SiteError:
            if time.monotonic() > deadline:
                raise
        CANCELLATION.pause(2)


def _certificate(ssh: SshLink, inputs: Values) -> str:
    """The operator's chain and key, or a certificate for the gateway's own key from the site's authority."""
    brought = inputs.get("certificate")
    if brought:
        return Path(brought["chain"]).read_text() + Path(brought["key"]).read_text()
    request = ssh.run(GATEWAY, [*PROGRAM, "csr"], timeout=APPLY_SECONDS).stdout
    authority = certificate_authority.authority(inputs["site"], inputs["domain_name"])
    return authority.sign(request, inputs["settings"]["hostname"])
