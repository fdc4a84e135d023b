"""Two workspaces at once, shared by all end-to-end tests of a run."""

import os
import random
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from deskyard.host.places import places
from deskyard.host.vm.accelerator import accelerator
from tests.conftest import SEED
from tests.e2e.full_desktop import CLOSE
from tests.e2e.test_viewer import watch
from tests.support import browser
from tests.support.door import Door
from tests.support.workspaces import Declared, Running, bring_up, inv, plan, take_down

BUILD_SECONDS = 6 * 3600
JOURNAL_LINES = 120


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to CI, of the tests marked `boots` that take minutes each, the choice of the seed; a deep run has all."""
    boots = [item for item in items if item.get_closest_marker("boots")]
    kept = random.Random(SEED).choice(boots) if boots and config.option.markexpr != "deep" else None
    for item in boots:
        if item is not kept:
            item.add_marker(pytest.mark.deep)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep with a failure what the gateways of its workspaces wrote down: they are gone when it is read."""
    report = yield
    if report.failed:
        found = {value.name: value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Running)}
        report.sections += [(f"journal of the gateway of {name}", journal(found[name])) for name in sorted(found)]
    return report


def journal(running: Running) -> str:
    """The last lines of a gateway's units."""
    units = "-u haproxy.service -u 'deskyard-*'"
    try:
        lines = running.ssh(
            "gateway", f"sudo journalctl --no-pager -o short-precise -n {JOURNAL_LINES} {units}", check=False
        )
    except (OSError, AssertionError, subprocess.SubprocessError) as error:
        return f"not read: {error}"
    return lines.stdout + lines.stderr


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say at once why a test failed: the machines run for long, and a run that is ended says it no more."""
    if report.failed:
        journals = "\n".join(text for title, text in report.sections if title.startswith("journal"))
        print(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext}\n{journals}", file=sys.stderr, flush=True)


# What the locked workspace may reach.
ALLOWED = (
    "docs.example.org",
    "*.pages.example.org",
    "git.example.org:22",
    "git.example.org:9876",
    "rebinding.example.org",
)
# What a person is asked about there.
ASKED = ("pay.example.org",)


@pytest.fixture(scope="session")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """Workspaces e2e-a (egress open) and e2e-b (locked), up, with one desktop each; destroyed at the end.

    `DESKYARD_E2E_KEEP=FOLDER` keeps them (and their declarations there) for the next run: for working on the tests.
    """
    kept = os.environ.get("DESKYARD_E2E_KEEP")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("stacks")
    folder.mkdir(exist_ok=True)
    declared = [
        Declared("e2e-a", "10.91.1.0/24", 18443, ("desk",), folder),
        Declared(
            *("e2e-b", "10.91.2.0/24", 18444, ("desk",), folder),
            egress_allow=ALLOWED,
            egress_ask=ASKED,
            keep=("/etc/kept.d",),
        ),
    ]
    try:
        bring_up(declared)
        yield {entry.name: Running(entry, plan(entry, accelerator("auto"))) for entry in declared}
    finally:
        if not kept:
            take_down(declared)


@pytest.fixture(scope="session")
def ours(workspaces: dict[str, Running]) -> Running:
    """The workspace most tests look at."""
    return workspaces["e2e-a"]


@pytest.fixture(scope="session")
def other(workspaces: dict[str, Running]) -> Running:
    """The workspace nobody in `ours` may reach."""
    return workspaces["e2e-b"]


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A workspace with one desktop of the full image, up; destroyed at the end."""
    with alone(tmp_path_factory.mktemp("stacks"), "agent", "10.91.3.0/24", 18445) as running:
        yield running


@contextmanager
def alone(folder: Path, image: str, network: str, port: int, **declared: Any) -> Iterator[Running]:
    """A workspace with one desktop of an image that other tests need not, up; destroyed at the end."""
    name = declared.pop("name", f"e2e-{image}")
    workspace = Declared(name, network, port, ("desk",), folder, image=image, **declared)
    inv(folder, "image.build", image, timeout=BUILD_SECONDS)
    try:
        bring_up([workspace])
        yield Running(workspace, plan(workspace, accelerator("auto")))
    finally:
        take_down([workspace])


@pytest.fixture
def full_viewer(full: Running) -> Iterator[Chrome]:
    """A browser that shows the full image's desktop; what a test opened on it, and its end left, is closed."""
    with browser.browser(door_of(full)) as driver:
        watch(driver, full.grant()["url"])
        yield driver
    full.ssh("desk", CLOSE)


@pytest.fixture(scope="session")
def door(ours: Running) -> Door:
    """The gateway of `ours`, as a raw client sees it."""
    return door_of(ours)


def door_of(running: Running) -> Door:
    """The gateway of a workspace, as a raw client sees it."""
    return Door(running.plan.gateway.url, places().sites / running.plan.site / "ca.pem", running.plan.gateway.listen)
