"""The power that a machine of a cluster is wanted to have, as a tag of the machine. Pure.

No owner's tag and no pool begins so: those begin with `deskyard.`; and no template's: those begin with `deskyard-image`
or `deskyard-draft`.
"""

from collections.abc import Iterable

from deskyard.plan.power import Power

# A machine that is wanted to run has none. Proxmox VE takes `[a-z0-9_][a-z0-9_.+-]*` (PVE::JSONSchema, PVE_TAG_RE).
POWER_TAGS = {Power.OFF: "deskyard-power.off", Power.PAUSED: "deskyard-power.paused"}


def power_of(tags: Iterable[str]) -> Power:
    """Read from its tags what a machine is wanted to be; off if they say both."""
    held = set(tags)
    return next((power for power, tag in POWER_TAGS.items() if tag in held), Power.RUNNING)


def with_power(tags: Iterable[str], power: Power) -> tuple[str, ...]:
    """Add to tags what the machine is wanted to be, in the order in which the cluster keeps them."""
    others = set(tags) - set(POWER_TAGS.values())
    return tuple(sorted(others | ({POWER_TAGS[power]} if power in POWER_TAGS else set())))
