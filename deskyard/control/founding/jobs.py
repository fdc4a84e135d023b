"""The jobs by which a worker's child makes and destroys workspaces, as the host's tasks would."""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.founding.target import FOUND, PREVIEW, SIGNED_OF_A_DESKTOP
from deskyard.control.people.intent import END
from deskyard.errors import DeskyardError
from deskyard.plan.power import NoRoom

Wanted = Mapping[str, Any]


def _found(wanted: Wanted) -> dict[str, Any]:
    from deskyard.workspace import founding, workspace
    from deskyard.workspace.founding import Wish

    name, given = wanted["workspace"], wanted["input"]
    # What was signed of each, whatever else the request says.
    desktops = tuple({key: each.get(key) for key in SIGNED_OF_A_DESKTOP} for each in given["desktops"])
    wish = Wish(name, desktops, given["site"], given["egress"], given.get("network"))
    founding.declare(wish, wanted["actor"], again=wanted["attempt"] > 1)
    try:
        state = workspace.up(name)
    except NoRoom:
        # Tried again once there may be some, as it is declared now.
        raise
    except DeskyardError as error:
        # Of a machine that never answered no backup can be proved, so that Mission Control does not destroy it.
        away = f"or remove it at its host: ./inv workspace.destroy {name} --no-backup"
        stays = f"{name} stays declared: then POST /api/workspaces/{name}/up, {away}"
        raise DeskyardError(error.field, error.value, error.reason, f"{error.remedy}; {stays}") from error
    return {"result": {"workspace": name, "ready": state["ready"], "url": state["url"]}}


def _end(wanted: Wanted) -> dict[str, Any]:
    from deskyard.declaration import declaration, stack_file
    from deskyard.life import removal

    name = wanted["workspace"]
    if wanted["attempt"] > 1 and stack_file.is_put_away(declaration.stack_file(name)):
        # The attempt before was killed behind its last step.
        return {"result": {"workspace": name}}
    return {"result": {"workspace": name, **removal.remove(name, wanted["input"]["desktops"], wanted["operation"])}}


def _preview(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import removal

    return {"result": removal.preview(wanted["workspace"])}


JOBS: dict[str, Callable[[Wanted], dict[str, Any]]] = {FOUND: _found, END: _end, PREVIEW: _preview}
