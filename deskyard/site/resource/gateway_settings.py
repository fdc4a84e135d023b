"""The settings of a running gateway: its document, its certificate and the key of the process `link`.

They go over SSH, with the host key pinned first.
"""

import datetime
import json
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Protocol

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.site import certificate_authority, link_key
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values
from deskyard.site.ssh_link import GATEWAY, SshLink

# An emulated gateway boots in two to nine minutes, depending on what else boots.
BOOT_SECONDS = 1800.0
# A gateway waits up to 990 s for a unit to start: here for two of them, and for one more on the way back.
APPLY_SECONDS = 3000.0
ANSWER_SECONDS = 600.0  # of what puts nothing into force
RENEW_BEFORE = datetime.timedelta(days=30)
PROGRAM = ("sudo", "deskyard-gateway")


class Channel(Protocol):
    """The way to a guest that needs no network and no trust on first use: its agent, by way of the hypervisor."""

    def wait(self, seconds: float) -> None:
        """Wait until the agent answers; raises `SiteError` if it does not in time."""

    def prepare(self) -> None:
        """Make the guest what the seed of libvirt makes it, where the hypervisor's own first boot cannot."""

    def host_key(self) -> str:
        """The SSH host key; raises `SiteError` while there is none."""


class GatewaySettingsKind(Kind[Any]):
    """`GatewaySettings` of every backend: changed in place, without touching machines."""

    replaces: ClassVar[frozenset[str]] = frozenset({"site", "workspace"})
    computed: ClassVar[tuple[str, ...]] = ("host_key", "certificate_expires", "link_key")

    def stale(self, state: Values) -> list[str]:
        """A certificate near its end is renewed, and another key or program of `link` is delivered.

        A certificate that the operator brought is the operator's to renew.
        """
        stale = [] if state.get("link_key") == link_key.digest(state["site"]) else ["link_key"]
        expires = state.get("certificate_expires")
        if not isinstance(expires, str) or "chain" in (state.get("certificate") or {}):
            return stale
        left = datetime.datetime.fromisoformat(expires) - datetime.datetime.now(datetime.UTC)
        return ["certificate_expires", *stale] if left < RENEW_BEFORE else stale

    @abstractmethod
    def channel(self, link: Any, inputs: Values) -> Channel:
        """The way to the gateway's agent."""

    @abstractmethod
    def has_machine(self, link: Any, state: Values) -> bool:
        """True if the gateway's machine is still there."""

    def create(self, link: Any, inputs: Values) -> tuple[str, Values]:
        """Wait for the gateway, pin its host key, then hand over settings and certificate."""
        deadline = Deadline(BOOT_SECONDS)
        channel = self.channel(link, inputs)
        channel.wait(BOOT_SECONDS)
        channel.prepare()
        ssh = SshLink(inputs["site"], inputs["workspace"])
        settings = with_authority(inputs["settings"])
        desktops = [(desktop["name"], desktop["address"]) for desktop in settings["desktops"]]
        ssh.write_config(settings["uplink_address"], desktops)
        key = _host_key(channel, deadline)
        ssh.pin(GATEWAY, key)
        ssh.wait(GATEWAY, deadline.left, CANCELLATION.pause)
        ssh.run(GATEWAY, [*PROGRAM, "apply"], stdin=json.dumps(settings), timeout=APPLY_SECONDS)
        ssh.wait(GATEWAY, ANSWER_SECONDS, CANCELLATION.pause)
        chain = _certificate(ssh, inputs)
        ssh.run(GATEWAY, [*PROGRAM, "certificate"], stdin=chain, timeout=APPLY_SECONDS)
        delivered = link_key.deliver(ssh)
        # With ACME the gateway renews by itself; this certificate only opens the door until then.
        expires = None if settings.get("acme") else certificate_authority.expires(chain).isoformat()
        return f"{inputs['site']}/{inputs['workspace']}", {
            "host_key": key,
            "certificate_expires": expires,
            "link_key": delivered,
        }

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Answer the state as it was: settings live and die with the gateway, which may be off and is not asked."""
        return state if self.has_machine(link, state) else None

    def update(self, link: Any, identity: str, state: Values, inputs: Values) -> Values:
        """Hand everything over again; the gateway changes only what differs."""
        return self.create(link, inputs)[1]

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Forget the pinned keys; the gateway itself goes with its machine."""
        ssh = SshLink(state["site"], state["workspace"])
        for path in (ssh.config, ssh.known_hosts):
            path.unlink(missing_ok=True)


def _host_key(channel: Channel, deadline: Deadline) -> str:
    """The agent can answer before the first boot has made the host keys."""
    while True:
        try:
            return channel.host_key()
        except SiteError:
            if deadline.is_over:
                raise
        CANCELLATION.pause(2)


def with_authority(settings: Values) -> Values:
    """The settings as a gateway gets them: the text of the ACME server's authority in place of its file."""
    acme = settings.get("acme")
    return {**settings, "acme": {**acme, "ca": Path(acme["ca"]).read_text()}} if acme and acme["ca"] else settings


def _certificate(ssh: SshLink, inputs: Values) -> str:
    """The operator's chain and key, or a certificate for the gateway's own key from the site's authority."""
    brought = inputs.get("certificate")
    if brought and "chain" in brought:
        return Path(brought["chain"]).read_text() + Path(brought["key"]).read_text()
    request = ssh.run(GATEWAY, [*PROGRAM, "csr"], timeout=ANSWER_SECONDS).stdout
    authority = certificate_authority.authority(inputs["site"], inputs["domain_name"])
    return authority.sign(request, inputs["settings"]["hostname"])
