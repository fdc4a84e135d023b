"""What a test needs of the machine that it runs on.

Without it the test is left out with the reason, so that a developer can go on; where CI is set it fails, since a suite
that vanishes in green guards nothing.
"""

import os
import shutil
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Leave the test out because the machine lacks something; in CI fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"needs {what}, and CI is set: nothing is left out there", pytrace=False)
    pytest.skip(f"needs {what}")


def need_root(why: str) -> None:
    """Leave the test out unless root runs it; `why` says what root does there."""
    if os.geteuid() != 0:
        missing(f"root: {why}")


def need_programs(*names: str, path: str | None = None) -> None:
    """Leave the test out unless all of the programs are installed; `path` is where to look, if not on PATH."""
    for name in names:
        if shutil.which(name, path=path) is None:
            missing(name)
