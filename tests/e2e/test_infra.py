"""The suites that passed in the freshly built image pass in the live machines of a workspace: the same files."""

from collections.abc import Iterator

import pytest

from tests.e2e.live_suites import SECONDS, begin_suites
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]
MACHINES = {"gateway": "gateway", "desk": "desktop"}  # host -> image


@pytest.fixture(scope="module")
def suites(ours: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[int, str]]]:
    """Exit code and output of each machine's suites: each machine is waited for, so they run at once."""
    logs = {host: tmp_path_factory.mktemp("suites") / f"{host}.log" for host in MACHINES}
    running = {host: begin_suites(ours, host, image, logs[host]) for host, image in MACHINES.items()}
    try:
        yield {host: (process.wait(SECONDS), logs[host].read_text()) for host, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
            process.wait()


@pytest.mark.boots
@pytest.mark.parametrize("host", MACHINES)
def test_a_live_machine_passes_the_suites_of_its_image(suites: dict[str, tuple[int, str]], host: str) -> None:
    code, output = suites[host]
    assert code == 0, output[-8000:]
