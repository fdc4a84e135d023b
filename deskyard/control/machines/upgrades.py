"""The upgrades that follow from a selection of desktops: to which image each goes, and which are left out and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from deskyard.control.api.admission import Wanted
from deskyard.control.api.caller import Caller, Link, Row
from deskyard.control.api.forms.desktops import Skipped, Upgrade
from deskyard.control.api.forms.signing import MOST_TARGET, SignedIntent
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import proof_of
from deskyard.control.machines.target import UPGRADE, upgrade_target

# An exchange begins and ends with a desktop that runs.
RUNS = ("ready", "booting")


@dataclass(frozen=True)
class Upgrades:
    """The desktops of a selection that are upgraded, each to the image that is built for it, and those that are not."""

    chosen: Sequence[Upgrade]
    skipped: Sequence[Skipped]

    @classmethod
    def of(cls, found: Sequence[Row]) -> "Upgrades":
        """The upgrades of desktops in rows of `desktop`."""
        chosen, skipped = [], []
        for row in found:
            if (why := without(row) or _rests(row)) is not None:
                skipped.append(Skipped(id=row["id"], reason=why))
            else:
                chosen.append(Upgrade(id=row["id"], image_now=row["image_now"], upgrade_to=row["image_newest"]))
        return cls(chosen, skipped)

    @property
    def target(self) -> str:
        """The line by which a person signs all of them."""
        return upgrade_target({each.id: each.upgrade_to for each in self.chosen})

    def to_sign(self, who: Caller) -> str | None:
        """The line that the caller has to sign; raises a 422 where one signature cannot name them all."""
        if who.key is not None or not self.chosen:
            return None
        if len(self.target) > MOST_TARGET:
            reason = f"has {len(self.chosen)} desktops, more than one signature names"
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY, "selector", None, reason, "choose fewer, and then the others"
            )
        return self.target

    async def tasks(self, link: Link, who: Caller, signed: SignedIntent | None) -> dict[str, Wanted]:
        """An operation for each, by its id: a person signed all of them at once, a key proves each by itself."""
        images = {each.id: each.upgrade_to for each in self.chosen}
        found = {}
        target = self.to_sign(who)
        together = await proof_of(link, who, UPGRADE, target, signed) if target is not None else None
        for id, image in images.items():
            proof = together or await proof_of(link, who, UPGRADE, upgrade_target({id: image}), None)
            values = {"image": image, "packages": False, **({"together": images} if together else {})}
            found[id] = Wanted(UPGRADE, id.partition(".")[0], id, values, proof)
        return found


def without(row: Row) -> str | None:
    """Why there is no upgrade for a desktop; None if there is one."""
    newest = row["image_newest"]
    if newest is None:
        return "its image is not built from the current sources of its host"
    return f"runs {newest} already" if newest == row["image_now"] else None


def _rests(row: Row) -> str | None:
    return None if row["state"] in RUNS else f"is {row['state']}: it has to run"
