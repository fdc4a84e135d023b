"""Does operations as the worker's child in the walk of `docs/api.md`.

Desktops for a task are at the seats of `seated.py`; with all others it does as `child.py`, and writes down what becomes
of them as who observes desktops does.
"""

import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deskyard.control.ground.folder import Folder
from deskyard.control.jobs import child as product
from deskyard.control.store.cluster import Cluster
from tests.control import child, seated

STATES = {"desktop.start": "ready", "desktop.stop": "stopped"}


def observed(wanted: Mapping[str, Any]) -> None:
    """Write down what becomes of a desktop."""
    kind, id = wanted["kind"], wanted["desktop"]
    folder = Folder(Path(os.environ["LAB"]).parent)
    with Cluster(folder).as_owner() as link:
        if kind == "desktop.create":
            link.execute(
                "insert into desktop (id, workspace_id, name, tier, image, address, state)"
                " values (%s, %s, %s, 'free', 'desktop', '10.0.0.9', 'ready')",
                [id, wanted["workspace"], wanted["input"]["name"]],
            )
        elif kind == "desktop.destroy":
            link.execute("update desktop set gone_at = now() where id = %s", [id])
        elif kind == "workspace.create":
            link.execute("insert into workspace (id, site) values (%s, 'local')", [wanted["workspace"]])
            for desktop in wanted["input"]["desktops"]:
                link.execute(
                    "insert into desktop (id, workspace_id, name, tier, image, address)"
                    " values (%s, %s, %s, %s, 'desktop', '10.0.1.9')",
                    [f"{wanted['workspace']}.{desktop['name']}", wanted["workspace"], desktop["name"], desktop["tier"]],
                )
        elif kind == "workspace.destroy":
            link.execute("update desktop set gone_at = now() where workspace_id = %s", [wanted["workspace"]])
            link.execute("update workspace set gone_at = now() where id = %s", [wanted["workspace"]])
        elif kind in STATES:
            link.execute("update desktop set state = %s where id = %s", [STATES[kind], id])


def main() -> int:
    line = sys.stdin.readline()
    sys.stdin = io.StringIO(line)
    wanted = json.loads(line or "{}")
    if str(wanted.get("kind")).startswith("task."):
        seated.stand_in(Path(os.environ["LAB"]), setattr)
        return product.main()
    if wanted:
        observed(wanted)
    return child.main()


if __name__ == "__main__":
    sys.exit(main())
