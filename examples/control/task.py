"""A task on a desktop of its own, by way of Mission Control: create, task, read the answer, destroy.

    MISSION_KEY=dyk_... python3 examples/control/task.py https://mission.localhost:9443 research "Say hello" --ca ca.pem

The key needs the scopes read, desktops:write, chat and desktops:destroy, best bound to just that workspace.
"""

import argparse
import os
import secrets
import sys

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import MissionControl


def run(control: MissionControl, workspace: str, task: str) -> str:
    """What the agent of a new desktop answers; the desktop is gone afterwards, whatever happened."""
    name = f"task-{secrets.token_hex(4)}"
    created = control.create(workspace, name)
    try:
        control.wait(created)
        return control.answer(control.say(f"{workspace}.{name}", task))
    finally:
        try:
            control.wait(control.destroy(f"{workspace}.{name}"))
        except DesktopError as error:
            print(f"{workspace}.{name} may still be there: {error}", file=sys.stderr)


def main() -> int:
    """Do it for a shell, or a pipeline; the answer goes to standard output."""
    options = argparse.ArgumentParser(description="Give a task to the agent of a new desktop.")
    options.add_argument("url")
    options.add_argument("workspace")
    options.add_argument("task")
    options.add_argument("--ca", help="the file of the site's CA, where it has one of its own")
    chosen = options.parse_args()
    try:
        with MissionControl.connect(chosen.url, os.environ["MISSION_KEY"], chosen.ca) as control:
            print(run(control, chosen.workspace, chosen.task))
    except DesktopError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
