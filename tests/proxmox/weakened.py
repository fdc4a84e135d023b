"""Builds with one guard taken away, by what is lacking: a test that does not fail on them would prove nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pulumi

from deskyard.engine import leftovers, network_guard, on_proxmox, preflight
from deskyard.engine import stack as pulumi_stack
from deskyard.engine.change import RESOURCES, Change, Watcher
from deskyard.engine.stack import WorkspaceStack
from deskyard.plan.proxmox import placement
from deskyard.plan.proxmox import workspace as proxmox
from deskyard.plan.proxmox.firewall import FirewallPlan, desktop_firewall
from deskyard.plan.proxmox.view import ClusterView
from deskyard.site.proxmox import retry, sdn, wiring
from deskyard.workspace import workspace
from stacks.proxmox import machine, network
from stacks.proxmox.machine import Machine

Piece = tuple[Any, str, Any]
_firewall, _up = Machine._firewall, WorkspaceStack.up


def _begun_before_its_firewall(self: Machine, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    _firewall(self, opts)
    return []


def _all_nodes(_: Any, view: ClusterView) -> list[Any]:
    """With room on those that are away, too: they show none, which alone would keep machines from them."""
    nodes = sorted(view.nodes, key=lambda node: node.name)
    return [node if node.online else replace(node, vcpus=64, memory_mib=1 << 18) for node in nodes]


def _without_neighbours(plan: Any, desktop: Any) -> FirewallPlan:
    whole = desktop_firewall(plan, desktop)
    return replace(whole, rules=tuple(rule for rule in whole.rules if rule.comment not in ("neighbours", "private")))


def _unrefreshed(self: WorkspaceStack) -> list[Change]:
    watcher, stack = Watcher(), self._select()
    self._engine(watcher, stack, lambda: stack.preview(on_event=watcher))
    return [change for change in watcher.changes if change.type.startswith(RESOURCES)]


def _unprotected(self: WorkspaceStack) -> None:
    self.unprotect()
    _up(self)


WITHOUT: dict[str, Piece] = {
    "look at the first boot": (leftovers, "has_first_boot", lambda _: True),
    "look at the nodes' reloads": (sdn, "failed_with", lambda _: None),
    "verdict of the nodes' reloads": (sdn, "_failure", lambda *_: None),
    "look at the machines of a network": (wiring, "bridges", lambda _: ()),
    "guard of networks": (network_guard, "check", lambda *_: None),
    "clearing": (leftovers, "clear", lambda *_: []),
    "lifting of stale locks": (pulumi_stack, "_stale", lambda _: False),
    "another try": (on_proxmox, "TRIES", 1),
    "telling apart what passes": (retry, "passes", lambda _: True),
    "one try of a clone": (machine, "CLONE_TRIES", 2),
    "order of firewall and start": (Machine, "_firewall", _begun_before_its_firewall),
    "open ports": (network, "ISOLATED", True),
    "rule about neighbours": (proxmox, "desktop_firewall", _without_neighbours),
    "look at nodes": (placement, "usable_nodes", _all_nodes),
    "look at the firewall's switch": (preflight, "_cluster_firewall", lambda _: None),
    "look before a change": (WorkspaceStack, "preview", _unrefreshed),
    "guard of data": (workspace, "_guard_data", lambda *_: None),
    "protection in the state": (WorkspaceStack, "up", _unprotected),
}


@contextmanager
def without(*names: str) -> Iterator[None]:
    """The build without these, while the block lasts."""
    pieces = [WITHOUT[name] for name in names]
    before = [getattr(place, name) for place, name, _ in pieces]
    for place, name, value in pieces:
        setattr(place, name, value)
    try:
        yield
    finally:
        for (place, name, _), value in zip(pieces, before, strict=True):
            setattr(place, name, value)
