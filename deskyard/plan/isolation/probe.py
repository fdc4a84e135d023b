"""A probe of `workspace.verify`, and the catalogue that numbers them. Pure."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from deskyard.plan.isolation import frames
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

# What is known to get by on some nodes (docs/cluster-isolation.md) is sent and told, and is no failure.
Expected = Literal["reached", "refused", "known"]
# Marks are how a watcher knows a probe's frame: a prefix of one run, then the probe's number in four digits.
MARK_START, MARK_DIGITS = "dyv", 4
# What must not be reached is waited for as long; who has to answer, and may be an emulated machine at work, has longer.
WAIT_SECONDS, PATIENCE = 3.0, 5.0

GATEWAY = "gateway"
# The hypervisor's host, where its bridges are; and where people come from, which may be outside of its namespace.
HOST, HERE = "host", "here"


@dataclass(frozen=True)
class HostFacts:
    """The targets that the hypervisor's host offers: its addresses and the TCP ports that something listens on.

    `programs` are those that compile the firewall of the nodes, if it is a cluster.
    """

    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probe:
    """An attempt; it reached its target if its outcome is one of `reached_by` or a witness saw its mark."""

    id: str
    topic: str
    start: str
    action: dict[str, Any]
    expected: Expected
    guards: tuple[str, ...]
    threats: tuple[int, ...] = ()
    reached_by: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()

    @property
    def forged(self) -> bool:
        """Whether it is a frame past the network stack."""
        return bool(self.action["do"] == "frame")

    def reached(self, outcome: str, seen_by: Sequence[str]) -> bool:
        """Whether this outcome, or these sightings, mean that the target was reached."""
        return outcome in self.reached_by or bool(set(self.witnesses) & set(seen_by))


def machine(plan: WorkspacePlan, name: str) -> str:
    """How a machine is called among the machines of several workspaces."""
    return f"{plan.name}/{name}"


def watched(plan: WorkspacePlan) -> dict[str, dict[str, str]]:
    """The machines of a workspace that watch, with their NICs: name in the Plan -> MAC address.

    A machine may call its NIC otherwise: not every hypervisor's first boot can name one.
    """
    gateway = {"workspace": plan.gateway.workspace_mac, "uplink": plan.gateway.uplink_mac}
    desktops = {machine(plan, desktop.name): {"workspace": desktop.mac} for desktop in plan.desktops}
    return {**desktops, machine(plan, GATEWAY): gateway}


@dataclass
class Catalogue:
    """Collects the probes of one run; each gets its number, and with it its mark."""

    plan: WorkspacePlan
    facts: HostFacts
    mark: str
    against: WorkspacePlan | None
    probes: list[Probe] = field(default_factory=list)

    @property
    def mode(self) -> str:
        """How the workspace's desktops may get out."""
        return self.plan.gateway.settings.egress

    def at(self, name: str, rest: str) -> str:
        """A place in the workspace where something is watched: a machine, then interface and direction."""
        return f"{machine(self.plan, name)}/{rest}"

    def far_watchers(self) -> tuple[str, ...]:
        """The places of the other workspace where nothing may arrive."""
        if self.against is None:
            return ()
        return tuple(f"{name}/{nic}/in" for name, nics in watched(self.against).items() for nic in nics)

    def add(self, desktop: DesktopPlan, *given: Any, **named: Any) -> None:
        """Add a probe from a desktop; the rest is as with `put`."""
        self.put(machine(self.plan, desktop.name), *given, **named)

    def put(
        self,
        start: str,
        topic: str,
        what: str,
        action: dict[str, Any] | Callable[[bytes], dict[str, Any]],
        expected: Expected,
        guards: tuple[str, ...],
        threats: tuple[int, ...] = (),
        reached_by: tuple[str, ...] = (),
        witnesses: tuple[str, ...] = (),
    ) -> None:
        """Add a probe; an action that is a function is given the mark."""
        mark = f"{self.mark}{len(self.probes):0{MARK_DIGITS}x}".encode()
        by_answer = expected == "reached" and not witnesses
        seconds = WAIT_SECONDS * (PATIENCE if by_answer else 1)
        done = {"seconds": seconds, **(action(mark) if callable(action) else action)}
        name = f"{start}: {what}"
        self.probes.append(Probe(name, topic, start, done, expected, guards, threats, reached_by, witnesses))

    def outside(
        self,
        desktop: DesktopPlan,
        topic: str,
        what: str,
        target: tuple[str, int, str],
        expected: Expected,
        guards: tuple[str, ...],
        threats: tuple[int, ...],
    ) -> None:
        """Something marked that must, or must not, leave the gateway: seen there, whoever answers or does not."""
        address, port, kind = target
        action = partial(udp, address, port)
        if kind == "TCP":
            action = partial(syn, self.plan, desktop, address, port)
        self.add(
            desktop,
            topic,
            f"{what} ({kind} {port})",
            action,
            expected,
            guards,
            threats,
            reached_by=() if expected == "reached" else ("answered", "refused"),
            witnesses=(self.at(GATEWAY, "uplink/out"),),
        )


def tcp(address: str, port: int) -> dict[str, Any]:
    """A connection."""
    return {"do": "tcp", "address": address, "port": port}


def udp(address: str, port: int, mark: bytes) -> dict[str, Any]:
    """A marked datagram."""
    return {"do": "udp", "address": address, "port": port, "payload": _text(mark)}


def ping(address: str, mark: bytes) -> dict[str, Any]:
    """A marked echo request."""
    return {"do": "ping", "address": address, "payload": _text(mark)}


def frame(make: Callable[[bytes], bytes], mark: bytes) -> dict[str, Any]:
    """A frame of a desktop's own making."""
    return {"do": "frame", "interface": "workspace", "frame": _text(make(mark))}


def syn(plan: WorkspacePlan, desktop: DesktopPlan, address: str, port: int, mark: bytes) -> dict[str, Any]:
    """The beginning of a connection, with a mark: a reset may be the gateway's, so what arrives is what counts."""
    # Other ports for other probes, or the gateway would take them for one connection.
    own_port = 20_000 + int(mark[-MARK_DIGITS:], 16) % 40_000
    packet = frames.syn(desktop.address, address, (own_port, port), mark)
    sent = frames.ethernet(plan.gateway.workspace_mac, desktop.mac, frames.IPV4, packet)
    return {"do": "frame", "interface": "workspace", "frame": _text(sent)}


def dns(address: str, name: str, kind: int = 1) -> dict[str, Any]:
    """A question for a name."""
    return {"do": "dns", "address": address, "name": name, "type": kind}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
