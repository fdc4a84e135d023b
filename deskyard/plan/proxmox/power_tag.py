"""The power that a machine of a cluster is wanted to have, as a tag of the machine. Pure.

No owner's tag and no pool begins so: those begin with `deskyard.`; and no template's: those begin with `deskyard-image`
or `deskyard-draft`.

Who goes back to a snapshot gets the tags of then. The description alone stays as it is (pve-guest-common 5.2.2,
PVE/AbstractConfig.pm, `__snapshot_apply_config`): meanwhile the wish is in a line of it, which goes before the tags.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from deskyard.plan.power import Power
from deskyard.plan.proxmox.view import tags_of

# A machine that is wanted to run has none. Proxmox VE takes `[a-z0-9_][a-z0-9_.+-]*` (PVE::JSONSchema, PVE_TAG_RE).
POWER_TAGS = {Power.OFF: "deskyard-power.off", Power.PAUSED: "deskyard-power.paused"}
LINE = "deskyard-power="


def power_of(tags: Iterable[str]) -> Power:
    """Read from its tags what a machine is wanted to be; off if they say both."""
    held = set(tags)
    return next((power for power, tag in POWER_TAGS.items() if tag in held), Power.RUNNING)


def with_power(tags: Iterable[str], power: Power) -> tuple[str, ...]:
    """Add to tags what the machine is wanted to be, in the order in which the cluster keeps them."""
    others = set(tags) - set(POWER_TAGS.values())
    return tuple(sorted(others | ({POWER_TAGS[power]} if power in POWER_TAGS else set())))


def wish_of(config: Mapping[str, Any]) -> Power:
    """Read from its configuration what a machine is wanted to be, also while it goes back to a snapshot."""
    return held_wish(config) or power_of(tags_of(config))


def held_wish(config: Mapping[str, Any]) -> Power | None:
    """Read what outlives the way back to a snapshot; none of a machine that goes back to none."""
    for line in _lines(config):
        if line.startswith(LINE):
            with contextlib.suppress(ValueError):
                return Power(line.removeprefix(LINE).strip())
    return None


def with_held_wish(config: Mapping[str, Any], power: Power | None) -> str:
    """The description of a machine with what outlives the way back to a snapshot, or without it."""
    others = [line for line in _lines(config) if not line.startswith(LINE)]
    return "\n".join([*others, f"{LINE}{power}"] if power is not None else others)


def _lines(config: Mapping[str, Any]) -> list[str]:
    return str(config.get("description") or "").splitlines()
