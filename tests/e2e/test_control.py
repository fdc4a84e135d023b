"""Mission Control on a workspace that runs: what the API says is so, and what it is asked comes true."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from selenium.webdriver.common.keys import Keys

from deskyard.control.anchors.visit import HEAD
from deskyard.control.ground.folder import Folder
from deskyard.control.store.cluster import OWNER, Cluster
from deskyard.control.store.connection import Link, connect
from deskyard.host.deadline import Deadline
from deskyard.host.places import places, tree
from deskyard.site.libvirt import daemon
from deskyard.workspace.readiness import SECONDS
from tests.control.test_anchors import rewrite
from tests.e2e.conftest import door_of
from tests.e2e.test_viewer import eventually, says, watch
from tests.gateway.support import wait_for
from tests.support import browser
from tests.support.workspaces import Declared, Running, forget_backups, take_down

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]

PORT = 19443
SCOPES = "read,desktops:write,desktops:destroy,chat,approvals:decide,admin"
UP_SECONDS = 300
VISIT_SECONDS = 600
CLOSING_SECONDS = 600
BACKED_UP = 3  # times what a workspace needs to come up: a backup, what it is proved by, and the end


@dataclass
class Mission:
    """A Mission Control of its own for a workspace's stacks."""

    folder: Path
    running: Running

    def inv(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """A task, its answer as JSON; `code` is how it ends."""
        env = {
            **os.environ,
            "DESKYARD_STACKS": str(self.running.declared.folder),
            "PULUMI_BACKEND_URL": f"file://{self.running.declared.folder}",
            "DESKYARD_CONTROL": str(self.folder),
        }
        argv = ["./inv", *arguments]
        done = subprocess.run(
            argv, cwd=tree(), env=env, capture_output=True, text=True, timeout=UP_SECONDS, check=False
        )
        assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return dict(json.loads(done.stdout)) if "--json" in arguments else {}

    def visit_gateways(self) -> None:
        """Let the process that asks gateways begin anew, which visits each of them."""
        process = json.loads((self.folder / "processes.json").read_text())["link"]
        os.kill(process["pid"], signal.SIGTERM)

    def database(self) -> Link:
        """A connection of the database's owner."""
        return connect(Cluster(Folder(self.folder)).url(OWNER))

    def audit(self, code: int = 0) -> dict[str, Any]:
        """What the workspace's gateway says of the audit; `problem` is what is wrong with that by its own hashes."""
        found = self.inv("control.audit", "--json", code=code)
        [gateway] = [gateway for gateway in found["gateways"] if gateway["workspace"] == self.running.name]
        return {**gateway, "problem": found["problem"]}

    def client(self) -> httpx.Client:
        """A program that trusts the site's authority, and has a key for all."""
        key = self.inv("control.key", "e2e", "--scopes", SCOPES, "--json")["key"]
        trust = ssl.create_default_context(cafile=str(places().sites / self.running.plan.site / "ca.pem"))
        return httpx.Client(
            base_url=f"https://127.0.0.1:{PORT}",
            headers={"Authorization": f"Bearer {key}", "Host": f"mission.localhost:{PORT}"},
            timeout=90,
            # The resolver of a machine need not know names below localhost.
            transport=Named(verify=trust),
        )


class Named(httpx.HTTPTransport):
    """A transport that asks this machine for mission.localhost."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request with the name that the certificate has."""
        request.extensions = {**request.extensions, "sni_hostname": "mission.localhost"}
        return super().handle_request(request)


@pytest.fixture(scope="module")
def mission(ours: Running) -> Iterator[Mission]:
    folder = Path(tempfile.mkdtemp(prefix="deskyard-mission."))
    folder.chmod(0o711)
    found = Mission(folder, ours)
    try:
        state = found.inv("control.up", "--port", str(PORT), "--json")
        assert state["ready"] and state["link"].startswith(f"https://mission.localhost:{PORT}/enrol#")
        yield found
    finally:
        found.inv("control.down")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def api(mission: Mission) -> Iterator[httpx.Client]:
    with mission.client() as client:
        yield client


def await_state(api: httpx.Client, desktop: str, state: str, seconds: float) -> dict[str, Any]:
    """A desktop as soon as it is in a state, by the events of the API."""
    with api.stream("GET", f"/api/events?desktop={desktop}", timeout=seconds) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        now = dict(api.get(f"/api/desktops/{desktop}").json())
        if now["state"] == state:
            return now
        kind = ""
        for line in lines:
            name, _, value = line.partition(": ")
            kind = value if name == "event" else kind
            if name == "data" and kind == "desktop" and json.loads(value)["state"] == state:
                return dict(json.loads(value))
    raise AssertionError(f"{desktop} was not {state}: the stream ended")


def done(api: httpx.Client, path: str, seconds: float, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """An operation at its end: the same request again is answered when it is over, or after a minute."""
    headers = {"Idempotency-Key": uuid4().hex, "Prefer": "wait=60"}
    for _ in range(int(seconds / 60) + 1):
        found = dict(api.post(path, json=body, headers=headers).json())
        if found["endedAt"]:
            break
    log = api.get(f"/api/operations/{found['id']}/log").json()["items"]
    assert found["state"] == "done", (found, [line["line"] for line in log])
    return found


def test_what_runs_is_seen_as_ready(api: httpx.Client, ours: Running) -> None:
    found = await_state(api, f"{ours.name}.desk", "ready", SECONDS[ours.plan.accelerator])
    plan = ours.plan.desktop("desk")
    assert (found["address"], found["tier"], found["wanted"]) == (plan.address, plan.tier, "running")
    assert {"desktop", "terminal"} <= set(found["routes"])
    workspace = api.get(f"/api/workspaces/{ours.name}").json()
    assert (workspace["url"], workspace["problem"]) == (ours.plan.gateway.url, None)


def test_host_says_which_image_a_desktop_runs(api: httpx.Client, ours: Running) -> None:
    def desktop() -> dict[str, Any]:
        return dict(api.get(f"/api/desktops/{ours.name}.desk").json())

    # It is asked once a minute.
    assert Deadline(300).wait_for(lambda: desktop()["imageNow"] is not None, 1.0)
    name, _, digest = desktop()["imageNow"].rpartition("-")
    assert (name, len(digest)) == ("desktop", 16)
    dry = {"action": "upgrade", "selector": {"workspace": ours.name}, "expectedCount": 0, "dryRun": True}
    skipped = api.post("/api/fleet/actions", json=dry).json()["skipped"]
    assert [each["id"] for each in skipped] == [f"{ours.name}.desk"]


def test_a_link_of_the_api_opens_the_desktop_and_is_shown_once(api: httpx.Client, ours: Running) -> None:
    operation = done(api, f"/api/desktops/{ours.name}.desk/session", 300, {"mode": "view"})
    assert "link" not in operation["result"]
    shown = api.get(f"/api/operations/{operation['id']}").json()["result"]
    assert shown["link"].startswith(ours.plan.gateway.url)
    assert "link" not in api.get(f"/api/operations/{operation['id']}").json()["result"]
    sessions = json.loads(ours.inv("access.list", ours.name, "--json").stdout)
    assert any(session["mode"] == "view" for session in sessions)


def test_who_was_given_a_link_is_on_the_timeline_after_a_look(api: httpx.Client, ours: Running) -> None:
    operation = done(api, f"/api/desktops/{ours.name}.desk/session", 300, {"mode": "view"})
    done(api, f"/api/workspaces/{ours.name}/look", 600)
    found = api.get(f"/api/desktops/{ours.name}.desk/timeline").json()
    actors = [moment["actor"] for moment in found["items"] if moment["what"] == "link made"]
    assert operation["actor"] in actors and found["readAt"] is not None
    assert [moment["what"] for moment in found["items"] if moment["subject"] == operation["id"]] == ["desktop.session"]


def test_who_drives_chats_on_the_page_of_the_gateway(api: httpx.Client, ours: Running) -> None:
    desktop = f"{ours.name}.desk"
    operation = done(api, f"/api/desktops/{desktop}/session", 300, {"mode": "drive"})
    link = api.get(f"/api/operations/{operation['id']}").json()["result"]["link"]
    with browser.browser(door_of(ours)) as driver:
        watch(driver, link)
        eventually(lambda: driver.find_element("id", "chat-form").is_displayed(), "Mission Control", driver)
        driver.find_element("id", "chat-text").send_keys("say who you are", Keys.ENTER)
        # The image has none: what the worker is told at the machine comes back to the page.
        eventually(lambda: "has no agent" in says(driver, "chat-messages"), "the answer", driver)
        browser.keep(driver.get_screenshot_as_png(), "chat")
    (conversation,) = api.get("/api/conversations", params={"desktop": desktop}).json()["items"]
    (said,) = api.get(f"/api/conversations/{conversation['id']}/messages").json()["items"]
    assert (said["text"], said["author"], said["state"]) == ("say who you are", operation["actor"], "failed")


def test_name_that_was_refused_is_seen_and_allowed_and_the_next_look_says_so(
    api: httpx.Client, ours: Running, other: Running
) -> None:
    wanted = "mission-refused.example.org"

    def looked(running: Running) -> dict[str, Any]:
        return dict(done(api, f"/api/workspaces/{running.name}/look", 600)["result"])

    other.ssh("desk", f"curl --silent --max-time 60 https://{wanted}/", check=False)
    found = looked(other)
    assert [name for name, part in found.items() if part["problem"]] == []
    assert {row["entry"] for row in found["allowed"]["rows"]} >= set(other.plan.gateway.settings.egress_rules.allow)
    assert [row["entry"] for row in found["refusals"]["rows"] if row["target"] == wanted] == [wanted]
    assert [row["desktop"] for row in found["refusals"]["rows"] if row["target"] == wanted] == ["desk"]
    assert (found["snapshots"]["rows"], found["keys"]["rows"]) == ([], [])
    refused = api.get(f"/api/desktops/{other.name}.desk/timeline?kind=refusal").json()["items"]
    assert [moment["times"] >= 1 for moment in refused if wanted in moment["detail"]] == [True]
    try:
        done(api, f"/api/workspaces/{other.name}/allowed", 600, {"name": wanted, "howLong": "15m"})
        [allowed] = [row for row in looked(other)["allowed"]["rows"] if row["entry"] == wanted]
        assert (allowed["declared"], bool(allowed["until"]), allowed["actor"].split(":")[:2]) == (
            False,
            True,
            ["key", "e2e"],
        )
    finally:
        other.inv("egress.forbid", other.name, wanted)
    # One that is open has no list and counts no names, and says so beside what it has.
    found = looked(ours)
    assert {name for name, part in found.items() if part["problem"]} - {"traffic"} == {"allowed"}
    assert "is open, so there is no list" in found["allowed"]["problem"]["reason"]
    answer = api.post(f"/api/workspaces/{ours.name}/allowed", json={"name": wanted, "howLong": "15m"})
    assert (answer.status_code, answer.json()["field"]) == (409, "workspace")


def test_a_spent_budget_closes_its_names_at_the_gateway_until_it_is_gone(api: httpx.Client, other: Running) -> None:
    name, budget = "docs.example.org", f"/api/budgets/{other.name}"

    def closed() -> list[tuple[str, str]]:
        listed = json.loads(other.inv("egress.list", other.name, "--json").stdout)
        return [(row["entry"], row["reason"]) for row in listed["closed"]]

    prices = {"prices": [{"tier": other.plan.desktop("desk").tier, "microsPerHour": 10**12}]}
    assert api.put("/api/prices", json=prices).status_code == 200
    assert api.put(budget, json={"microsPerMonth": 1, "closes": [name]}).status_code == 200
    try:
        taken = "the gateway to take it"
        wait_for(taken, lambda: api.get("/api/budgets").json()["items"][0]["closed"] == [name], CLOSING_SECONDS, 1)
        assert closed() == [(name, "budget")]
    finally:
        assert api.put(budget, json={"microsPerMonth": None}).status_code == 200
        wait_for("the name to be open again", lambda: closed() == [], CLOSING_SECONDS, 1)


@pytest.mark.boots
def test_a_desktop_is_stopped_and_started_and_its_events_say_so(api: httpx.Client, ours: Running) -> None:
    desktop, patience = f"{ours.name}.desk", SECONDS[ours.plan.accelerator]
    stopped = done(api, f"/api/desktops/{desktop}/stop", patience)
    assert stopped["result"]["machines"] == [{"name": "desk", "state": "stopped", "desired": "off"}]
    assert await_state(api, desktop, "stopped", patience)["id"] == desktop
    done(api, f"/api/desktops/{desktop}/start", patience)
    assert await_state(api, desktop, "ready", patience)["id"] == desktop


# Its key is a line of the audit.
@pytest.mark.usefixtures("api")
def test_gateway_holds_the_audit_and_one_that_was_written_anew_is_found_by_it(mission: Mission) -> None:
    mission.visit_gateways()
    assert Deadline(VISIT_SECONDS).wait_for(lambda: mission.audit()["state"] == "matches", 1)
    # By now the gateway has a line of its own audit for this one, too.
    mission.visit_gateways()
    with mission.database() as link:

        def is_taken() -> bool:
            query = "select 1 from audit_entry where action = %s and target = %s limit 1"
            return link.execute(query, [HEAD, mission.running.name]).fetchone() is not None

        assert Deadline(VISIT_SECONDS).wait_for(is_taken, 0.1)
        found = mission.audit()
        assert (found["state"], found["problem"]) == ("matches", None)
        with link.transaction():
            # Nothing is appended meanwhile.
            link.execute("select pg_advisory_xact_lock(4711)")
            rewrite(link, found["last"])
    changed = mission.audit(code=1)
    assert (changed["state"], changed["problem"]) == ("differs", None), "by its hashes alone it is whole"
    assert found["last"] in [difference["line"] for difference in changed["differences"]]


@pytest.mark.deep  # a machine is booted twice: itself, and what its last backup is proved by
def test_a_workspace_is_made_and_destroyed_by_the_api_with_a_proved_backup(
    api: httpx.Client, mission: Mission, ours: Running
) -> None:
    made = Declared("e2e-made", "", 0, ("one",), ours.declared.folder)
    path, patience = f"/api/workspaces/{made.name}", 2 * SECONDS[ours.plan.accelerator]
    try:
        done(api, "/api/workspaces", patience, {"name": made.name, "desktops": [{"name": "one"}]})
        await_state(api, f"{made.name}.one", "ready", patience)
        headers = {"Idempotency-Key": uuid4().hex}
        asked = dict(api.request("DELETE", path, json={"desktops": ["one"]}, headers=headers).json())

        def ended() -> bool:
            return api.get(f"/api/operations/{asked['id']}").json()["endedAt"] is not None

        assert Deadline(BACKED_UP * patience).wait_for(ended, 1)
        found = api.get(f"/api/operations/{asked['id']}").json()
        assert found["state"] == "done", found
        assert set(found["result"]["last_backups"]) == {"one"}
        assert (made.folder / found["result"]["declaration"]).is_file()
        assert api.get(path).status_code == 404
        with daemon.connection() as link:
            assert [each.name() for each in link.listAllDomains() if made.name in each.name()] == []
    finally:
        if (made.folder / f"Pulumi.{made.name}.yaml").exists():
            take_down([made])
        forget_backups(made.name)
