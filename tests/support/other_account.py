"""What a program of another account finds: one that may not write what root, or this test's account, has."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.claimers import fork

NOBODY = 65534


def said_by_another(ask: Callable[[], str], without_root: Callable[[], object]) -> str:
    """Ask in a process of another account; where no root runs the test, in its own after `without_root`."""
    with tempfile.TemporaryDirectory() as name:
        said = Path(name, "said")
        said.touch()
        said.chmod(0o666)
        said.parent.chmod(0o711)

        def child() -> None:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            else:
                without_root()
            said.write_text(ask())

        os.waitpid(fork(child), 0)
        return said.read_text()
