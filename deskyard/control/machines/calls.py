"""/api/desktops/ID/upgrade: another system for a desktop, of the image that is built by now."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Depends
from pydantic import Field, StrictBool

from deskyard.control.api.admission import Asked, Wanted
from deskyard.control.api.caller import Caller, may
from deskyard.control.api.forms.base import Form
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_kept
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import proof_of
from deskyard.control.machines.target import PREVIEW, UPGRADE, upgrade_target
from deskyard.control.machines.upgrades import without
from deskyard.control.people.scopes import DESTROY, WRITE

router = APIRouter(prefix="/api", tags=["desktops"])


class UpgradeWanted(Form):
    """Leave to exchange a desktop's system; a key with the scope `desktops:destroy` needs no signature."""

    image: str | None = Field(
        None, max_length=120, description="The `upgradeTo` that the caller saw: where it is another by now, 409."
    )
    packages: StrictBool = Field(False, description="Install again what its owner had installed.")
    intent: SignedIntent | None = Field(None, description="A person's signature over `ID to IMAGE`.")


@router.post("/desktops/{id}/upgrade", status_code=HTTPStatus.ACCEPTED)
async def upgrade(
    asked: Asked,
    who: Annotated[Caller, Depends(may(DESTROY))],
    id: str,
    how: Annotated[UpgradeWanted | None, Body()] = None,
) -> Operation:
    """Give a desktop a system of its image as built now; /home, keys and address stay, the rest of its disk goes.

    The system of before comes back by itself unless the desktop is as well as it was: then the operation is `failed`,
    with the reason. `POST .../upgrade/preview` says what would be lost.
    """

    async def make() -> Wanted:
        found, chosen = await require_kept(asked.link, who, id), how or UpgradeWanted()
        if (why := without(found)) is not None:
            remedy = "nothing is to be done; for a newer one, ./inv image.build at its host"
            raise Problem(HTTPStatus.CONFLICT, "desktop", id, why, remedy)
        image = found["image_newest"]
        if chosen.image not in (None, image):
            reason = f"is not what is built now: {image}"
            raise Problem(HTTPStatus.CONFLICT, "image", chosen.image, reason, "look again, then repeat it")
        proof = await proof_of(asked.link, who, UPGRADE, upgrade_target({id: image}), chosen.intent)
        return Wanted(UPGRADE, found["workspace_id"], id, {"image": image, "packages": chosen.packages}, proof)

    return await asked.admitted(who, make)


@router.post("/desktops/{id}/upgrade/preview", status_code=HTTPStatus.ACCEPTED)
async def preview(asked: Asked, who: Annotated[Caller, Depends(may(WRITE))], id: str) -> Operation:
    """Ask a desktop what an upgrade would take: `packages` that its owner installed; files of /etc that stay: `kept`.

    Nothing of it is touched but notes in /home/.deskyard.
    """

    async def make() -> Wanted:
        found = await require_kept(asked.link, who, id)
        # It moves nothing: it waits for nobody who moves the workspace.
        return Wanted(PREVIEW, found["workspace_id"], id, lane=f"preview:{id}")

    return await asked.admitted(who, make)
