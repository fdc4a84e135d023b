"""A desktop gets a really newer image and goes back, by its owner's wish and by itself where it is not as well.

The newer image is well in a fresh machine, so that it passes its build; its browser, or its guest agent, is dead in a
home with a certain file. A guest agent is waited for as long as a desktop may need to boot: that happens in a workspace
of its own, beside the rest.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from deskyard.host.vm.accelerator import accelerator
from deskyard.plan.account import AGENT
from deskyard.plan.customisation import HOME
from tests.e2e.test_power import DESKTOP, IDENTITY, WAIT_SECONDS, preview
from tests.support.checkout import checkout
from tests.support.workspaces import Declared, Running, bring_up, inv, plan, start_inv, take_down

pytestmark = [pytest.mark.vm, pytest.mark.deep]

IMAGES, IMAGE = Path(__file__).parent / "images", "e2e-newer"
BUILD_SECONDS = 6 * 3600
# Two starts with the newer system, and one with that of before.
EXCHANGE_SECONDS = 4 * WAIT_SECONDS
UNIT, WANTED = "/etc/systemd/system/counting.service", "/etc/systemd/system/multi-user.target.d"
KEPT = ["/etc/kept.d/count", UNIT, f"{WANTED}/counting.conf"]
# Of a home that somebody lives in: files, and a program that goes on from the state that it left there.
SETTLE = f"""
install -d -o {AGENT} {HOME}/mine /etc/kept.d {WANTED}
head -c 3000000 /dev/urandom >{HOME}/mine/large
echo work >{HOME}/mine/small
cat >/etc/kept.d/count <<'END'
number=$(tail -n 1 {HOME}/counted 2>/dev/null || true)
number=${{number:-0}}
while :; do number=$((number + 1)); echo $number; sleep 1; done >>{HOME}/counted
END
cat >{UNIT} <<'END'
[Service]
ExecStart=/bin/sh /etc/kept.d/count
END
printf '[Unit]\\nWants=counting.service\\n' >{WANTED}/counting.conf
chmod 0640 /etc/kept.d/count
systemctl daemon-reload
systemctl start counting
sync
"""
STAYS = {
    "identity": IDENTITY,
    "volume of home": "findmnt --noheadings --output SOURCE --target /home",
    "files": f"sudo sh -c 'cd {HOME}/mine && sha256sum * && stat -c \"%a %U %Y %n\" *'",
    "kept": f"sudo sh -c 'stat -c \"%a %U %n\" {' '.join(KEPT)}; sha256sum {' '.join(KEPT)}'",
}
COUNTED = f"systemctl is-active counting && sudo awk '$1 != NR {{ exit 1 }} END {{ print NR }}' {HOME}/counted"
NEW_FILE = "usr/share/e2e/newer"
MARK = f"cat /{NEW_FILE}"


@dataclass(frozen=True)
class Newer:
    """Two desktops that are declared with the newer image, and have the system of the other one."""

    image: str  # with its digest
    lively: Running
    mute: Running
    mute_before: dict[str, Any]
    attempt: Popen[str]  # the upgrade of the mute desktop
    said: Path  # its standard error


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newer]:
    """The desktops, up, and the upgrade of one of them under way; all is destroyed at the end."""
    folder, tree = tmp_path_factory.mktemp("stacks"), checkout(tmp_path_factory.mktemp("trees") / "tree", IMAGES)
    declared = [
        Declared("e2e-life", "10.91.8.0/24", 18451, (DESKTOP,), folder, keep=tuple(KEPT), checkout=tree),
        Declared("e2e-mute", "10.91.10.0/24", 18452, (DESKTOP,), folder, checkout=tree),
    ]
    said = folder / "said"
    try:
        # Nobody needs the newer image before all that has the other one is up.
        with ThreadPoolExecutor(1) as pool:
            building = pool.submit(inv, folder, "image.build", IMAGE, timeout=BUILD_SECONDS, checkout=tree)
            bring_up(declared)
        built = building.result().stdout.splitlines()[-1]
        lively, mute = (Running(entry, plan(entry, accelerator("auto"))) for entry in declared)
        lively.ssh(DESKTOP, "sudo sh -eu", stdin=SETTLE)
        mute.ssh(DESKTOP, "sudo sh -eu", stdin=f"touch {HOME}/breaks-guest-agent; sync")
        for entry in declared:
            replace(entry, image=IMAGE).write()
        before = looks(mute, "identity", "volume of home")
        mute.hang_up(DESKTOP)
        exchange = ("desktop.upgrade", target(mute), "--yes")
        with said.open("w") as log, start_inv(mute, *exchange, stderr=log) as attempt:
            yield Newer(f"{IMAGE}-{Path(built).parent.name}", lively, mute, before, attempt, said)
    finally:
        take_down(declared)


def target(running: Running) -> str:
    """The desktop, as tasks name it."""
    return f"{running.name}/{DESKTOP}"


def looks(running: Running, *which: str) -> dict[str, Any]:
    """How the desktop is in all that has to stay, with its system and the checks that fail."""
    system = json.loads(running.inv("desktop.system", target(running), "--json").stdout)
    answer = json.loads(running.inv("desktop.health", target(running), "--json", check=False).stdout)
    failing = {row["check"] for row in answer["machines"][DESKTOP] if row["state"] == "failed"}
    stays = {what: running.ssh(DESKTOP, STAYS[what]).stdout for what in which or STAYS}
    return {**stays, "system": system, "failing": failing, "marked": running.ssh(DESKTOP, MARK, check=False).stdout}


def counted(running: Running) -> int:
    """How far the program has come that counts; it runs, and has left no number out and written none twice."""
    active, number = running.ssh(DESKTOP, COUNTED).stdout.split()
    assert active == "active"
    return int(number)


def test_newer_image_brings_its_system_and_its_owner_goes_back(newer: Newer) -> None:
    running = newer.lively
    before, number = looks(running), counted(running)
    assert (before["marked"], before["system"]["kept"], before["failing"]) == ("", False, set())
    # That another image is declared is no change: a desktop keeps its disk until it is upgraded.
    assert preview(running) == {}
    running.hang_up(DESKTOP)
    done = running.inv("desktop.upgrade", target(running), "--yes", "--json", timeout=EXCHANGE_SECONDS)
    report = json.loads(done.stdout)
    assert (report["before"], report["after"]) == (before["system"]["image"], newer.image)
    assert report["kept"] == sorted(KEPT)
    assert report["machines"] == [{"name": DESKTOP, "state": "running", "desired": "running"}]

    new_system = {**before["system"], "image": newer.image, "kept": True}
    after = looks(running)
    assert after == {**before, "system": new_system, "marked": (IMAGES / IMAGE / "files" / NEW_FILE).read_text()}
    assert (later := counted(running)) > number
    assert preview(running) == {}

    running.hang_up(DESKTOP)
    done = running.inv("desktop.roll-back", target(running), "--yes", "--json", timeout=EXCHANGE_SECONDS)
    report = json.loads(done.stdout)
    assert (report["before"], report["after"]) == (newer.image, before["system"]["image"])
    assert looks(running) == before
    assert counted(running) > later
    assert preview(running) == {}


def test_image_with_a_dead_browser_is_left_again(newer: Newer) -> None:
    running = newer.lively
    running.ssh(DESKTOP, f"sudo -u {AGENT} touch {HOME}/breaks-browser; sync")
    before, number = looks(running), counted(running)
    running.hang_up(DESKTOP)
    done = running.inv("desktop.upgrade", target(running), "--yes", timeout=EXCHANGE_SECONDS, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 1
    assert "is not well: browser: does not start: e2e: this browser is dead" in done.stderr
    assert f"was not well with {newer.image}, and has its system of before again" in done.stderr
    assert looks(running) == before
    assert counted(running) > number
    assert preview(running) == {}


def test_image_without_a_guest_agent_is_left_again(newer: Newer) -> None:
    newer.attempt.wait(EXCHANGE_SECONDS)
    said = newer.said.read_text()
    print(said)
    assert newer.attempt.returncode == 1
    assert f"not ready in time: {DESKTOP}/guest agent" in said
    assert f"was not well with {newer.image}, and has its system of before again" in said
    assert looks(newer.mute, "identity", "volume of home") == newer.mute_before
    assert newer.mute_before["marked"] == ""
    assert preview(newer.mute) == {}
