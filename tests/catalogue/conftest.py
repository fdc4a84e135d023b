"""One host for all tests of this folder: roles are applied one after the other, as in an image."""

from collections.abc import Iterator

import pytest

from tests.catalogue.workbench import Workbench, host_with


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A desktop's system that has what the image `desktop` gives to agents, as far as the catalogue needs it."""
    with host_with(tmp_path_factory, "agent_user", "browser") as made:
        yield made
