"""Where the gateway keeps its files, and the few values that belong to the machine, not to the workspace."""

import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.wire import session_requests


@dataclass(frozen=True)
class Layout:
    """Paths below `root`; tests move the root and the ports, a gateway uses the defaults."""

    root: Path = field(default=Path("/"))
    program: Path = Path("/usr/lib/deskyard")
    listen_address: str = ""  # empty: the gateway's uplink address
    listen_port: int = 443
    service_port: int = 8700
    view_port: int = 8702  # where HAProxy finds the filter of VNC connections
    refusals_port: int = 8703  # where HAProxy tells the session service what it answered
    actions_port: int = 8705  # the same, of what programs do on desktops
    acme_port: int = 8704  # where certbot answers on loopback while it asks for a certificate
    challenge_port: int = 80  # where an ACME server looks for that answer
    door_sockets: int = 12_000  # at once; two open files each, HAProxy's unit allows 40,000
    false_tickets_per_minute: int = 60  # from one address; right ones are never refused
    requests_per_second: int = 200  # of one program, in the mean of some seconds
    lease_seconds: int = 900  # a session that nobody renews for so long is over
    driver_idle_seconds: float = 300  # a driver who does nothing for so long makes room for those who wait
    driver_away_seconds: float = 10  # a driver without a connection for so long has left
    streams_per_session: int = 4
    streams_per_desktop: int = 32
    proxy_user: str = "haproxy"
    service_user: str = "deskyard-session"
    view_user: str = "deskyard-view"
    acme_user: str = "deskyard-acme"
    acme_group: str = "deskyard-acme"
    egress_user: str = "deskyard-egress"
    egress_group: str = "deskyard-egress"
    ask_user: str = "deskyard-ask"
    hold_seconds: float = 90  # a connection waits so long for a person
    proxy_chroot: str = "/var/lib/haproxy"
    trusts_system: bool = True  # services run under systemd and the NICs are there

    @property
    def etc(self) -> Path:
        """The folder of what `apply` wrote: the configuration in force."""
        return self.root / "etc/deskyard"

    @property
    def settings_file(self) -> Path:
        """The settings in force."""
        return self.etc / "settings.json"

    @property
    def signing_group(self) -> str | None:
        """The group that reads the keys that sign sessions; None of one where it may not be there."""
        return self.service_user if self.trusts_system else None

    @property
    def firewall_file(self) -> Path:
        """The ruleset loaded after the base one at boot."""
        return self.etc / "firewall.nft"

    @property
    def dns_file(self) -> Path:
        """The configuration of dnsmasq."""
        return self.etc / "dnsmasq.conf"

    @property
    def proxy_file(self) -> Path:
        """The configuration of HAProxy, without the backends of sessions."""
        return self.etc / "haproxy.cfg"

    @property
    def forward_file(self) -> Path:
        """Says at boot whether the kernel forwards."""
        return self.root / "etc/sysctl.d/70-deskyard-forward.conf"

    @property
    def ssh_file(self) -> Path:
        """Where SSH listens: not on the addresses that lead desktops to names with a port 22."""
        return self.root / "etc/ssh/sshd_config.d/05-deskyard-gateway.conf"

    @property
    def tls(self) -> Path:
        """Key and certificate of the door."""
        return self.etc / "tls"

    @property
    def tls_bundle(self) -> Path:
        """Certificate chain and key in one file, as HAProxy reads them."""
        return self.tls / "haproxy.pem"

    @property
    def acme(self) -> Path:
        """The folder of the last order's outcome, and of what certbot gets to see of this gateway."""
        return self.root / "var/lib/deskyard-acme"

    @property
    def acme_client(self) -> Path:
        """certbot's own: its account's key, its logs, and what it was given."""
        return self.acme / "client"

    @property
    def signing_keys(self) -> Path:
        """Keys that sign sessions: `<kid>.key` for the session service, `<kid>.pub` for HAProxy."""
        return self.etc / "signing"

    @property
    def state(self) -> Path:
        """The folder of what the session service remembers."""
        return self.root / "var/lib/deskyard"

    @property
    def database(self) -> Path:
        """Tickets (hashed) and sessions."""
        return self.state / "sessions.db"

    @property
    def audit_file(self) -> Path:
        """The audit: a JSON line per decision."""
        return self.root / "var/log/deskyard/audit.jsonl"

    @property
    def actions_file(self) -> Path:
        """The log of programs' actions on desktops: a JSON line each, in a chain whose end the audit holds."""
        return self.audit_file.with_name("actions.jsonl")

    @property
    def proxy_run(self) -> Path:
        """Sockets and generated files of the running HAProxy."""
        return self.root / "run/deskyard-proxy"

    @property
    def master_socket(self) -> Path:
        """HAProxy's master socket: reaches every worker, also those of before a reload."""
        return self.proxy_run / "master.sock"

    @property
    def backends_file(self) -> Path:
        """Backends with one server per session, made anew before each start and reload."""
        return self.proxy_run / "backends.cfg"

    @property
    def private_file(self) -> Path:
        """The desktops that no program sees just now, for HAProxy."""
        return self.etc / "private.lst"

    @property
    def stopped_file(self) -> Path:
        """The desktops whose agents a person has stopped, for HAProxy."""
        return self.etc / "stopped.lst"

    @property
    def revoked_file(self) -> Path:
        """Ids of revoked sessions, made anew before each start and reload."""
        return self.proxy_run / "revoked.lst"

    @property
    def admin_socket(self) -> Path:
        """Where `deskyard-gateway` talks to the session service."""
        return self.root / session_requests.SOCKET

    @property
    def chat_socket(self) -> Path:
        """Where Mission Control's process `link` hears what is said on pages, and answers."""
        return self.root / "run/deskyard-session/chat.sock"

    @property
    def streams_socket(self) -> Path:
        """Where the filter of VNC connections asks the session service."""
        return self.root / "run/deskyard-session/streams.sock"

    @property
    def egress_file(self) -> Path:
        """The configuration of the second HAProxy, which carries what leaves a locked workspace."""
        return self.etc / "egress.cfg"

    @property
    def egress_routes_file(self) -> Path:
        """Makes the addresses of names with a port the gateway's own."""
        return self.etc / "egress-routes"

    @property
    def egress_socket(self) -> Path:
        """The master socket of the second HAProxy."""
        return self.root / "run/deskyard-egress/master.sock"

    @property
    def egress_watch(self) -> Path:
        """Root of the second HAProxy; holds nothing but the socket on which the watcher hears of refusals."""
        return self.root / "run/deskyard-egress-watch"

    @property
    def hold_socket_inside(self) -> str:
        """Where connections that wait for a person go, seen from the root of the second HAProxy."""
        return "/ask/hold.sock"

    @property
    def hold_socket(self) -> Path:
        """The same, seen from everywhere else."""
        return self.egress_watch / self.hold_socket_inside.removeprefix("/")

    def released_socket(self, port: int) -> Path:
        """Where the second HAProxy takes back what a person allowed, for a port of the web."""
        return self.egress_socket.with_name(f"released-{port}.sock")

    @property
    def ask_socket(self) -> Path:
        """Where `deskyard-gateway` talks to what holds connections."""
        return self.root / "run/deskyard-ask/control.sock"

    @property
    def tickets_file(self) -> Path:
        """The questions that people were asked, and their answers."""
        return self.root / "var/lib/deskyard-ask/tickets.json"

    @property
    def deciders_file(self) -> Path:
        """The people who may answer, with the public keys of their passkeys."""
        return self.etc / "deciders.json"

    @property
    def grants_file(self) -> Path:
        """The file of grants that came after the settings."""
        return self.root / "var/lib/deskyard-egress/grants.json"

    @property
    def traffic_file(self) -> Path:
        """The traffic that left a locked workspace: by day, desktop and name."""
        return self.grants_file.with_name("traffic.db")

    @property
    def refusals_file(self) -> Path:
        """The refusals: a JSON line each; the file before it has the ending .1."""
        return self.root / "var/log/deskyard-egress/refusals.jsonl"

    @property
    def assets(self) -> Path:
        """The viewer, as built."""
        return self.program / "assets"


def load() -> Layout:
    """The layout of this machine: defaults, moved by `DESKYARD_GATEWAY_LAYOUT` (a JSON file) in tests."""
    override = os.environ.get("DESKYARD_GATEWAY_LAYOUT")
    if not override:
        return Layout()
    values: dict[str, Any] = json.loads(Path(override).read_text())
    unknown = set(values) - {item.name for item in fields(Layout)}
    if unknown:
        raise GatewayError("layout", sorted(unknown), "has unknown keys", f"mend {override}")
    for name in ("root", "program"):
        if name in values:
            values[name] = Path(values[name])
    return Layout(**values)
