"""How long an agent waits for a person: from a held connection to its card, and from the click to the released bytes.

All of it is real: a gateway in namespaces, SSH, Mission Control's processes, and the page in Chromium.
"""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from deskyard.control.approvals.follow import Follower
from deskyard.control.ground.settings import Settings
from deskyard.control.link.gateways import tickets
from deskyard.control.process import proxy
from deskyard.control.store.cluster import LINK
from deskyard.gateway.machine.layout import Layout
from deskyard.plan.account import MANAGER
from tests.bench import decider, decider_worker
from tests.control.lab import ORIGIN, Lab
from tests.control.people import link_token
from tests.gateway.egress_lab import PUBLIC, USER, EgressLab, job, run_lab
from tests.gateway.link_door import CLIENT, SSHD, Door, link_door, new_key
from tests.gateway.link_ways import Ways, asker_by
from tests.gateway.support import wait_for
from tests.support.browser import trust_alone
from tests.support.pve.certificate import issue
from tests.unit.gateway.support import parsed
from tests.web.browser import Browser
from tests.web.conftest import chromium

WORKSPACE, HELD = "demo", "asked.test"
HOST, PORT = ORIGIN.removeprefix("https://").split(":")
# An address of loopback that nobody else listens on: the port is that of the origin.
LISTEN = f"127.9.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
SECONDS = 60.0
READING_SECONDS = 2.0
# Notes when the page first shows each name, and when a person last clicked the button that answers.
OBSERVE = """
window.shown = {};
document.addEventListener("click", (event) => {
  if (event.target.closest("dialog .primary")) window.clicked = Date.now();
}, true);
new MutationObserver(() => {
  for (const item of document.querySelectorAll("main li")) {
    for (const [name] of item.textContent.matchAll(/n[0-9]+\\.asked\\.test/g)) shown[name] ??= Date.now();
  }
}).observe(document.body, { childList: true, subtree: true, characterData: true });
"""
# By which the worker knows that a person is asked here, and brings the gateway the list of who answers.
DECLARATION = f"""config:
  deskyard:network: 10.80.1.0/24
  deskyard:egress: locked
  deskyard:egress_ask: ["*.{HELD}"]
  deskyard:desktops: [{{name: d1}}]
"""
ADMINISTRATOR = f"""set -e
useradd --create-home --base-dir /run --shell /bin/sh {MANAGER}
install -d -m 700 -o {MANAGER} /run/{MANAGER}/.ssh
install -m 600 -o {MANAGER} "$1" /run/{MANAGER}/.ssh/authorized_keys
echo '{MANAGER} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/{MANAGER}
mkdir -p /run/deskyard-ask
mount --bind "$2/run/deskyard-ask" /run/deskyard-ask
"""


@dataclass
class Waits:
    """Seconds of each connection: until its card was on the page, and from the click until its bytes were through."""

    to_card: list[float] = field(default_factory=list)
    to_release: list[float] = field(default_factory=list)
    allowed: list[float] = field(default_factory=list)  # of one that nobody is asked about


def measure(mission: Lab, pages: Path, folder: Path, tries: int, reading: float = READING_SECONDS) -> Waits:
    """Let a desktop's connections wait for a person who reads each card for so long, and allows it once."""
    found = Waits()
    with (
        _gateway() as lab,
        _declared(folder),
        _linked(mission, lab, folder),
        _page(mission, pages, folder) as browser,
        ThreadPoolExecutor(1) as desktop,
    ):
        browser.script(OBSERVE)
        for number in range(tries):
            began, ended = _tried(lab, "allowed.test")
            found.allowed.append(ended - began)
            name = f"n{number}.{HELD}"
            held = desktop.submit(_tried, lab, name)
            shown = _shown(browser, name)
            time.sleep(reading)
            # People seldom answer twice in the minute for which a connection is kept.
            decider.Way("local", WORKSPACE, mission.path).close()
            browser.click("Allow once")
            browser.find("dialog .primary").click()
            began, ended = held.result()
            found.to_card.append(shown - began)
            found.to_release.append(ended - browser.script("return clicked") / 1e3)
            browser.wait("it is no card any more", lambda: not browser.all("main li button"))
    return found


def _shown(browser: Browser, name: str) -> float:
    """When the card of a connection came."""
    shown = browser.wait(f"the card of {name}", lambda: browser.script("return shown[arguments[0]]", name))
    return float(shown) / 1e3


def _tried(lab: EgressLab, name: str) -> tuple[float, float]:
    """When a connection began, and when its bytes were answered from outside."""
    began = time.time()
    (answer,) = lab.ask([job("hello", name, seconds=SECONDS)])
    assert "outside " in answer["text"], answer
    return began, time.time()


@contextmanager
def _gateway() -> Iterator[EgressLab]:
    settings = parsed("locked", ("allowed.test",))
    rules = settings.egress_rules
    fast = dict.fromkeys(rules.rates, 100_000)
    asking = replace(settings, egress_rules=replace(rules, rates=fast, ask=(f"*.{HELD}",)))
    with run_lab(asking, {"*": {"A": [PUBLIC]}}) as found:
        yield found


@contextmanager
def _declared(folder: Path) -> Iterator[None]:
    stacks = folder / "stacks"
    stacks.mkdir()
    (stacks / f"Pulumi.{WORKSPACE}.yaml").write_text(DECLARATION)
    with patch.dict(os.environ, {"DESKYARD_STACKS": str(stacks)}):
        yield


@contextmanager
def _linked(mission: Lab, lab: EgressLab, folder: Path) -> Iterator[None]:
    """Mission Control follows that gateway by SSH with its own key, and its worker has an administrator's."""
    layout = Layout(root=lab.root, egress_user=USER, ask_user=USER, trusts_system=False)
    (folder / "link").mkdir()
    with link_door(folder / "link", SimpleNamespace(root=lab.root, layout=layout)) as door:  # type: ignore[arg-type]
        _administered(door, lab, mission.path)
        with Ways(door) as ways, asker_by(ways, folder) as asker:
            mission.declare(WORKSPACE, "d1")
            mission.link.execute("update workspace set egress = 'locked', state = 'ready' where id = %s", [WORKSPACE])
            follower = Follower(mission.url_as(LINK), tickets(asker), lambda name: name == WORKSPACE)
            thread = threading.Thread(target=follower.run, daemon=True)
            thread.start()
            try:
                yield
            finally:
                decider.Way("local", WORKSPACE, mission.path).close()
                follower.stop()
                mission.link.execute("notify event")
                thread.join(SECONDS)


def _administered(door: Door, lab: EgressLab, place: Path) -> None:
    new_key(door.folder, "administrator")
    key = str(door.folder / "administrator.pub")
    done = door.inside("sh", "-c", ADMINISTRATOR, "administrator", key, str(lab.root))
    assert done.returncode == 0, done.stderr
    config = CLIENT.format(account=MANAGER, pid=door.pid, sshd=SSHD, folder=door.folder)
    config = config.replace(f"{door.folder}/key", f"{door.folder}/administrator")
    (place / "ssh_config").write_text(config)


@contextmanager
def _page(mission: Lab, pages: Path, folder: Path) -> Iterator[Browser]:
    """The page of approvals behind Mission Control's proxy, with somebody signed in who may answer."""
    for path in pages.iterdir():
        (mission.folder.pages / path.name).write_bytes(path.read_bytes())
    for name in ("web", "worker", "recorder"):
        if name in mission.processes:
            mission.end(name)
    mission.web()
    # The proxy has an account of its own.
    mission.folder.web_socket.chmod(0o666)
    mission.recorder()
    mission.worker(child=decider.__name__, program=decider_worker.__name__)
    made = issue(folder, HOST)
    mission.folder.certificate.parent.mkdir(parents=True, exist_ok=True)
    mission.folder.certificate.write_text(made.certificate.read_text() + made.key.read_text())
    (folder / "haproxy.cfg").write_text(
        proxy.configuration(Settings("local", "localhost", LISTEN, int(PORT)), mission.folder)
    )
    trust, way = trust_alone(made.certificate.read_text()), f"--host-resolver-rules=MAP {HOST} {LISTEN}"
    with subprocess.Popen(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]) as door:
        try:
            with chromium(trust, way) as driver:
                browser = Browser(driver, ORIGIN)
                wait_for("the proxy", lambda: door.poll() is None and _answers(browser))
                browser.open(f"/enrol#{link_token(mission, 'ada', 'operator')}")
                browser.click("Enrol")
                browser.wait("signed in", lambda: browser.path() == "/")
                browser.open("/approvals")
                browser.sees("Nothing waits for you")
                yield browser
        finally:
            door.terminate()


def _answers(browser: Browser) -> Any:
    browser.open("/")
    return browser.driver.current_url.startswith(ORIGIN)
