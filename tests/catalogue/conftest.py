"""One host for all tests of this folder: roles are applied one after the other, as in an image."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.catalogue.workbench import Workbench


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A desktop's system that has what the image `desktop` gives to agents, as far as the catalogue needs it."""
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    if shutil.which("slirp4netns") is None:
        pytest.skip("slirp4netns is not installed: the host has no way to the registries")
    with Workbench(tmp_path_factory.mktemp("bench") / "yard") as bench:
        bench.apply(["agent_user", "browser"])
        yield bench
