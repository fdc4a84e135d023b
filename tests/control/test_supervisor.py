"""Mission Control as the host brings it up: processes, proxy and certificate, and each begins again when it ends."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from deskyard.control.control import Control
from deskyard.control.ground.confinement import LATE
from deskyard.control.ground.folder import ids
from deskyard.control.identity.declared import Declared
from deskyard.errors import ConfigError, HostError
from deskyard.host.background import start_time
from deskyard.host.deadline import Deadline
from tests.control import openid_double, trips
from tests.control.lab import ACCOUNTS, WAIT_SECONDS
from tests.control.openid_double import CLIENT, SECRET
from tests.control.site import HOST, Site, running
from tests.support.requirements import need_root

pytestmark = pytest.mark.sampled

# Each of the processes once.
SAMPLE = 9


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    need_root("gives processes accounts of their own")
    with running(lambda folder: (folder / "index.html").write_text("<title>pages</title>")) as found:
        yield found


def test_it_comes_up_with_a_link_for_the_first_person(site: Site) -> None:
    assert site.state["ready"] and all(site.state["processes"].values())
    names = {"database", "recorder", "web", "worker", "watch", "observer", "way", "link", "proxy"}
    assert set(site.state["processes"]) == names
    assert site.state["link"].startswith(f"https://{HOST}:{site.port}/enrol#")


def test_who_asks_gateways_has_an_account_and_no_network_file_or_right(site: Site) -> None:
    number = site.processes()["link"]
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert fields["Uid"].split()[0] == str(ids(ACCOUNTS.link)[0])
    assert (fields["CapEff"], fields["NoNewPrivs"]) == ("0" * 16, "1")
    assert Path(f"/proc/{number}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    assert b"DESKYARD" not in Path(f"/proc/{number}/environ").read_bytes()
    # Below a folder that is closed to its account it would fail there.
    assert LATE not in (site.control.folder.logs / "link.log").read_text()


def test_the_proxy_leads_to_pages_and_api_by_its_name_alone(site: Site) -> None:
    answer, page = site.get("/fleet")
    assert (answer.status, page) == (200, b"<title>pages</title>")
    assert "max-age" in (answer.headers["strict-transport-security"] or "")
    zipped, _ = site.get("/fleet", **{"Accept-Encoding": "gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert site.get("/version", **{"Accept-Encoding": "gzip"})[0].headers["content-encoding"] is None
    assert site.get("/fleet", host="other.localhost")[0].status == 421
    assert site.get("/api/desktops")[0].status == 401


def test_a_key_of_the_host_opens_the_api(site: Site) -> None:
    made = site.control.key("test", ["read"], None, 1)
    answer, body = site.get("/api/me", Authorization=f"Bearer {made['key']}")
    assert (answer.status, json.loads(body)["scopes"]) == (200, ["read"])


def test_a_network_of_webhooks_that_is_none_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="is no network"):
        site.control.up(port=site.port, webhook_networks=["10.1.0.0/33"])


def test_what_is_no_role_or_scope_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="choose one of: viewer, operator, admin"):
        site.control.person("eve", "king")
    with pytest.raises(ConfigError, match="is no scope"):
        site.control.key("test", ["everything"], None, 1)


def test_the_host_says_up_to_whom_an_admin_gives_by_the_web(site: Site) -> None:
    assert site.control.person("gus", "admin")["gives"] == "viewer"
    assert site.control.person("gus", gives="operator")["gives"] == "operator"
    assert site.control.person("gus")["gives"] == "operator", "another link leaves it as it is"
    site.control.remove_person("gus")
    assert site.control.person("gus", "admin")["gives"] == "viewer", "who was removed is marked anew"
    with pytest.raises(ConfigError, match="is for admins"):
        site.control.person("hal", "operator", gives="operator")


def test_a_person_who_was_removed_comes_in_by_no_link(site: Site) -> None:
    site.control.person("eve", "viewer")
    assert site.control.remove_person("eve")["removed"]
    with pytest.raises(ConfigError, match="is no person here"):
        site.control.remove_person("nobody-here")


def test_no_secret_stands_in_a_command_line_or_log(site: Site) -> None:
    key = site.control.key("test", ["read"], None, 1)["key"]
    token = site.state["link"].partition("#")[2]
    texts = [Path(f"/proc/{number}/cmdline").read_text() for number in site.processes().values()]
    texts += [path.read_text(errors="replace") for path in site.control.folder.logs.iterdir()]
    assert not any(secret in text for secret in (key, token) for text in texts)


def test_whatever_ends_begins_again(site: Site) -> None:
    before = site.processes()
    for number in before.values():
        os.kill(number, signal.SIGKILL)

    def is_new() -> bool:
        now = site.processes()
        return all(now.get(name) not in (None, number) for name, number in before.items())

    assert Deadline(2 * WAIT_SECONDS).wait_for(lambda: is_new() and site.control.status()["ready"], 0.1)
    assert all(site.control.status()["processes"].values())


@pytest.mark.parametrize("rounds", [SAMPLE, pytest.param(60, marks=pytest.mark.deep)])
def test_whichever_process_is_killed_at_any_event_all_of_their_work_goes_on_and_nothing_is_done_twice(
    site: Site, random_seed: int, rounds: int
) -> None:
    # The sample is always the same; the deep run prints what it started from.
    found = trips.run(site, 3 if rounds == SAMPLE else random_seed, rounds)
    print(found.summary())
    assert found.faults() == []
    assert {victim for victim, _ in found.kills} == set(site.processes())


def test_work_is_resumed_within_the_time_that_is_promised() -> None:
    """By what leases and pauses add up to; how fast a machine is adds to it."""
    assert trips.RESUMED_SECONDS <= 45


def test_it_is_backed_up_while_it_runs_and_restored_nowhere_else(site: Site, tmp_path: Path) -> None:
    made = site.control.backup(tmp_path)
    assert Path(made["file"]).exists() and made["holds"]["person"] >= 1
    with pytest.raises(HostError, match="runs"):
        site.control.restore(Path(made["file"]), dry_run=False)


def test_it_goes_down_whole_and_comes_up_with_what_it_knew_and_a_provider_that_was_declared(site: Site) -> None:
    assert json.loads(site.get("/api/sign-in")[1]) == {"provider": None}
    assert site.ask("POST", "/api/sign-in/provider", **{"X-Deskyard": "1"})[0].status == 404
    made, numbers = site.control.key("test", ["read"], None, 1), site.processes()
    site.control.down()
    assert [name for name, number in numbers.items() if start_time(number) is not None] == []
    with pytest.raises(HostError, match=r"run \./inv control\.up"):
        site.control.key("test", ["read"], None, 1)
    with openid_double.running() as double:
        site.control.declare(Declared(double.issuer, CLIENT, SECRET, "Example"))
        assert site.control.upgrade()["ready"]
        assert site.get("/api/me", Authorization=f"Bearer {made['key']}")[0].status == 200
        assert site.control.status()["processes"]["identity"]
        assert json.loads(site.get("/api/sign-in")[1]) == {"provider": "Example"}
        answer, body = site.ask("POST", "/api/sign-in/provider", **{"X-Deskyard": "1"})
        assert answer.status == 200 and json.loads(body)["url"].startswith(f"{double.issuer}/authorize?")
        assert quote_plus(f"https://{HOST}:{site.port}/sign-in/answer") in json.loads(body)["url"]
    for number in site.processes().values():
        assert not [part for part in ("cmdline", "environ") if SECRET in Path(f"/proc/{number}/{part}").read_text()]


def test_nothing_of_it_runs_once_it_is_down_although_its_supervisor_was_killed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, openid_double.running() as double:
        # It comes up below, once.
        patch.setattr(Control, "up", lambda *_: {})
        site.control.declare(Declared(double.issuer, CLIENT, SECRET, "Example"))
        assert site.control.withdraw() and not site.control.withdraw()
    numbers = site.processes()
    supervisor = json.loads((site.control.folder.root / "supervisor.pid").read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    site.control.down()
    assert [name for name, number in numbers.items() if start_time(number) is not None] == []
    assert not (site.control.folder.cluster / "postmaster.pid").exists()
    assert site.control.upgrade()["ready"]
    assert "identity" not in site.processes() and site.control.declared() is None
    assert json.loads(site.get("/api/sign-in")[1]) == {"provider": None}
