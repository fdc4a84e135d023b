"""The size of the volume of /home that a machine of a cluster has, as a tag of the machine. Pure.

The list of a cluster's machines tells of the first disk of each alone. The tag tells whoever plans that a machine has
such a volume, and what it takes of a quota, without asking for the configuration of each.
"""

from collections.abc import Iterable

# No owner's tag, no pool and no template's tag begins so (power_tag.py).
HOME_TAG = "deskyard-home."


def home_of(tags: Iterable[str]) -> int | None:
    """Read from its tags how many GiB the volume of a machine has; None if they tell of none."""
    sizes = (tag.removeprefix(HOME_TAG) for tag in tags if tag.startswith(HOME_TAG))
    return max((int(size) for size in sizes if size.isdecimal()), default=None)


def with_home(tags: Iterable[str], gib: int | None) -> tuple[str, ...]:
    """Add to tags the volume that the machine is to have, in the order in which the cluster keeps them."""
    others = {tag for tag in tags if not tag.startswith(HOME_TAG)}
    return tuple(sorted(others if gib is None else {*others, f"{HOME_TAG}{gib}"}))
