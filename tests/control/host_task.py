"""A task of `./inv` on the database of a lab: python -m tests.control.host_task ROOT TASK [OPTION...]."""

import sys
from pathlib import Path

from invoke.main import program

from deskyard.control import control
from deskyard.control.ground.folder import Folder
from deskyard.control.store.cluster import Cluster
from tests.control.lab import ACCOUNTS, TREE

folder = Folder(Path(sys.argv[1]), ACCOUNTS)
# No supervisor runs there, which would say where the database is.
setattr(control.Control, "_database", lambda _: Cluster(folder).as_owner())  # noqa: B010
program.run(["inv", "--search-root", str(TREE), *sys.argv[2:]])
