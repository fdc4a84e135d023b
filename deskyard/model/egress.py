"""The declared way out: entries of an allow-list, networks of the site."""

from ipaddress import IPv4Network
from typing import Annotated

import idna
from pydantic import AfterValidator

from deskyard.wire import egress_list

NEVER_REACHED = tuple(
    IPv4Network(network)
    for network in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "168.63.129.16", "100.100.100.200")
)
"""Loopback, link-local, metadata, multicast: no site has a reason to open these."""


def normal_entry(text: str) -> str:
    """An entry in its one form: lower case, A-labels; raises `ValueError` with `reason -> remedy`."""
    text = text.strip().lower()
    if not text.isascii():
        base, colon, port = text.partition(":")
        star = "*." if base.startswith("*.") else ""
        try:
            name = idna.encode(base.removeprefix("*."), uts46=True).decode()
        except idna.IDNAError as error:
            raise ValueError(f"is no international domain name: {error} -> write its A-label (xn--...)") from error
        text = f"{star}{name}{colon}{port}"
    return str(egress_list.parse(text))


def asked_entry(text: str) -> str:
    """An entry of `egress_ask` in its one form: a name on the ports of the web."""
    entry = normal_entry(text)
    if egress_list.parse(entry).needs_forward:
        raise ValueError(egress_list.NO_FORWARD)
    return entry


def _reachable(network: IPv4Network) -> IPv4Network:
    for never in NEVER_REACHED:
        if network.overlaps(never):
            raise ValueError(f"overlaps {never}, which no desktop may ever reach -> name a narrower network")
    return network


AllowEntry = Annotated[str, AfterValidator(normal_entry)]
AskEntry = Annotated[str, AfterValidator(asked_entry)]
ReachableNetwork = Annotated[IPv4Network, AfterValidator(_reachable)]
