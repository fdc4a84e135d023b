"""The kernel's table of connections: how much of it a desktop may fill, and how long it is for all of them.

The door's part is sized by the sockets that HAProxy is allowed. What desktops may fill is bounded beside it, so that
all of them together cannot take the door's part.
"""

from deskyard.wire.gateway_settings import Settings

OPEN_OF_ALL, OPEN_OF_ONE = 65_536, 1_024  # connections to the outside: of all desktops, and of one at most
CLOSED_SECONDS = 5  # a connection that is over, or a question to the host's resolver, stays in the table for so long
AT_ONCE, ASKED_AT_ONCE = 2, 4  # so many seconds' connections, and questions for names, a desktop may make in one
NAME_LINES = 4  # connections to the gateway's DNS that a desktop may hold
BUCKETS = 65_536  # of the table; 8 bytes each, from the start, however long it is
OWN = 8_192  # SSH, a server of certificates, and clients of the door that come and go
ESTABLISHED_SECONDS = 7_440  # RFC 5382: longer than the two hours after which a silent peer is asked whether it lives


def flows(settings: Settings) -> int:
    """How many connections to the outside a desktop may have open."""
    return min(OPEN_OF_ONE, OPEN_OF_ALL // max(1, len(settings.desktops)))


def entries(settings: Settings, door_sockets: int) -> int:
    """How long the table is; two entries for each socket of the door: from the browser, and to the desktop."""
    rates = settings.egress_rules.rates
    return (
        2 * door_sockets + OWN + sum(_share(settings, rates.get(desktop.address, 0)) for desktop in settings.desktops)
    )


def _share(settings: Settings, rate: int) -> int:
    """Entries that one desktop fills at most: twice those of its own, because the router of names does it once more."""
    names = rate * (2 * CLOSED_SECONDS + AT_ONCE + ASKED_AT_ONCE)
    return 2 * (flows(settings) + NAME_LINES + names)


def kernel(settings: Settings, door_sockets: int) -> dict[str, int]:
    """The kernel's settings of the table. `-`: a container may not set them, and has its host's."""
    most = entries(settings, door_sockets)
    return {
        "-net.netfilter.nf_conntrack_buckets": BUCKETS,
        "-net.netfilter.nf_conntrack_max": most,
        "net.netfilter.nf_conntrack_tcp_timeout_close": CLOSED_SECONDS,
        "net.netfilter.nf_conntrack_tcp_timeout_established": ESTABLISHED_SECONDS,
        "net.netfilter.nf_conntrack_tcp_timeout_time_wait": CLOSED_SECONDS,
    }
