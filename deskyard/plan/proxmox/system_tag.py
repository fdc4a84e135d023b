"""The system of a desktop of a cluster, in tags of its machine: its image, and which disks an exchange has left. Pure.

They are kept with the machine and nowhere declared: plans take them over as they are. They change in the very write
that exchanges the disks, so that they always say what is. Disks are told by the names of their volumes.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# No owner's tag, no pool, no template's tag and no copy's mark begins so.
_SYSTEM, _KEPT, _SPARE, _BUSY = "deskyard-system.", "deskyard-kept.", "deskyard-spare.", "deskyard-exchange."
SYSTEM_TAGS = (_SYSTEM, _KEPT, _SPARE, _BUSY)
# Of an image of which nothing is known; no image is called so, which has a digest behind its name.
_UNKNOWN = "unknown"
# Of templates.
IMAGE_TAG, DIGEST_TAG = "image-", "digest-"


@dataclass(frozen=True)
class Systems:
    """The image of a desktop's system, as NAME-DIGEST, and the disks beside it.

    `kept` is the volume of the system of before, `kept_image` what that is; `spare` are volumes that are to go. `busy`
    is which operator's machine exchanged the system last, and `until` when another may.
    """

    image: str | None = None
    kept: str | None = None
    kept_image: str | None = None
    spare: tuple[str, ...] = ()
    busy: str = ""
    until: int = 0

    @classmethod
    def of(cls, tags: Iterable[str]) -> "Systems":
        """Read them from the tags of a machine."""
        held = sorted(tags)
        kept, _, kept_image = next(_after(_KEPT, held), "").rpartition(".")
        busy, _, until = next(_after(_BUSY, held), "").rpartition(".")
        return cls(
            image=next(_after(_SYSTEM, held), None),
            kept=kept or None,
            kept_image=None if kept_image in ("", _UNKNOWN) else kept_image,
            spare=tuple(_after(_SPARE, held)),
            busy=busy,
            until=int(until) if until.isdecimal() else 0,
        )

    def among(self, tags: Iterable[str]) -> tuple[str, ...]:
        """Put them in place of those among the tags of a machine, in the order in which the cluster keeps them."""
        own = {f"{_SPARE}{volume}" for volume in self.spare}
        own |= {f"{_SYSTEM}{self.image}"} if self.image else set()
        own |= {f"{_KEPT}{self.kept}.{self.kept_image or _UNKNOWN}"} if self.kept else set()
        own |= {f"{_BUSY}{self.busy}.{self.until}"} if self.busy else set()
        return tuple(sorted({tag for tag in tags if not tag.startswith(SYSTEM_TAGS)} | own))


def image_of_template(tags: Iterable[str]) -> str | None:
    """The image that a template holds, as NAME-DIGEST."""
    held = sorted(tags)
    image, digest = next(_after(IMAGE_TAG, held), ""), next(_after(DIGEST_TAG, held), "")
    return f"{image}-{digest}" if image and digest else None


def volume_name(volume: str) -> str:
    """The name of a volume within its storage, whatever it starts from: `vm-101-disk-1`, `vm-101-disk-1.qcow2`."""
    return re.split("[:/]", volume)[-1]


def _after(start: str, tags: Iterable[str]) -> Iterator[str]:
    return (tag.removeprefix(start) for tag in tags if tag.startswith(start))
