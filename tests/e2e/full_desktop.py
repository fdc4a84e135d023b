"""The desktop of the full image: what its agent's user does on it, and what people see of that."""

import json
import shlex
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.catalogue.agent import CONFIGURATION, MODEL_LOG, MODEL_PORT, READY, SERVICE, with_model
from tests.e2e.test_keys import Owner
from tests.e2e.test_viewer import eventually
from tests.gateway.support import wait_for
from tests.support import browser, model_server
from tests.support.workspaces import Running

# An emulated machine takes minutes to open a large program.
OPEN_SECONDS = 900
# OpenClaw starts for minutes on an emulated processor, and anew for the key.
START_SECONDS = 2400
# A session over ssh takes a second of that processor.
PAUSE_SECONDS = 20
KEY = "canary-60b8-at-work"
HAS_KEY = (
    f"sudo grep -qz '^LOCAL_API_KEY={KEY}$' /proc/$(systemctl show --value --property=MainPID {SERVICE})/environ"
    f" && sudo -u agent sh <<'READY'\n{READY}READY\n"
)
CLOSE = "for _ in $(seq 60); do sudo pkill -u agent 'chromium|soffice' || break; sleep 1; done"
PAGE_COLOUR = "#2a9d8f"
PAGE = f"<!doctype html><title>local page</title><body style='background:{PAGE_COLOUR}'><h1>A local page"


def as_agent(full: Running, command: str) -> str:
    """What a command of the desktop's user says."""
    return full.ssh("desk", f"sudo -u agent -i sh -c {shlex.quote(command)}").stdout


def open_on_screen(full: Running, command: str) -> None:
    """Start a program as the menu would, and leave it to itself."""
    as_agent(full, f"DISPLAY=:1 setsid {command} >/dev/null 2>&1 </dev/null &")


def share(viewer: Chrome, colour: str) -> float:
    """How much of the desktop's picture has a colour, and not the next one: an empty window is nearly white."""
    canvas = viewer.find_element(By.CSS_SELECTOR, "#desktop canvas")
    return browser.share_of_colour(canvas.screenshot_as_png, colour, tolerance=4)


def await_window(full: Running, viewer: Chrome, title: str, colour: str, name: str, least: float = 0.2) -> None:
    """Wait for a window and for what it draws, at least a share of the desktop's picture, and keep the picture."""
    # A window that goes while they are listed is an error of wmctrl's.
    listed = "DISPLAY=:1 wmctrl -l || true"
    eventually(lambda: title in as_agent(full, listed), f"a window named {title}", viewer, OPEN_SECONDS)
    eventually(lambda: share(viewer, colour) > least, f"a window with {colour}", viewer, OPEN_SECONDS)
    browser.keep(viewer.get_screenshot_as_png(), name)


def set_up_agent(full: Running, prompt: str) -> None:
    """Give the desktop's agent its owner's key and prompt, and a model on the desktop's loopback address."""
    full.ssh("desk", "sudo tee /root/model.py >/dev/null", stdin=Path(model_server.__file__).read_text())
    model = f"python3 /root/model.py {MODEL_PORT} {KEY} {MODEL_LOG}"
    full.ssh("desk", f"sudo systemd-run --quiet --unit=model.service {model}")
    configuration = json.loads(full.ssh("desk", f"sudo cat /{CONFIGURATION}").stdout)
    full.ssh("desk", f"sudo tee /{CONFIGURATION} >/dev/null", stdin=json.dumps(with_model(configuration)))
    prompts = full.declared.folder / "everyone/home/.openclaw/workspace"
    prompts.mkdir(parents=True)
    (prompts / "AGENTS.md").write_text(f"{prompt}\n")
    owner = Owner(full)
    owner.customise("everyone")
    owner.set_key(KEY, "local")
    owner.name_it("local")
    owner.up()

    def has_its_key() -> bool:
        return full.ssh("desk", HAS_KEY, check=False).returncode == 0

    wait_for("the agent with its key", has_its_key, START_SECONDS, PAUSE_SECONDS)
