"""A locked workspace, seen from inside its desktop: the names on its lists, and nothing else of the outside."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.gateway.support import wait_for
from tests.support import probe
from tests.support.outside import BODY, Outside
from tests.support.site_host import SiteHost
from tests.support.workspaces import Running, start_inv

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]
VERIFY_SECONDS = 900
# Counters are read every two seconds, and each question to an emulated gateway takes some.
COUNTED_SECONDS = 120
LATER = "later.example.org"
REBINDING = "rebinding.example.org"
PAY = "pay.example.org"
# A connection is held for 90 seconds; the next try finds the answer that came after them.
TRIES = 5
CERTIFICATE = "/tmp/outside.pem"
NAMES = {
    name: SiteHost.internet_address
    for name in (
        "docs.example.org",
        "one.pages.example.org",
        "git.example.org",
        PAY,
        LATER,
        "docs.example.org.evil.test",
    )
}


@pytest.fixture(scope="module")
def site_host() -> Iterator[SiteHost]:
    """The host of the virtual machines, with one address of the wide internet."""
    with SiteHost() as host:
        yield host


@pytest.fixture(scope="module")
def locked(other: Running, site_host: SiteHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The locked workspace, with an outside that answers every name; one of them points inside."""
    names = {**NAMES, REBINDING: site_host.private_addresses()[0]}
    with Outside(other.plan, names, site_host.internet_address, tmp_path_factory.mktemp("outside")) as outside:
        other.ssh("desk", f"cat > {CERTIFICATE}", stdin=outside.certificate.read_text())
        yield other


def fetch(locked: Running, url: str, *options: str) -> str:
    """What curl in the desktop makes of a URL: its exit code, the status and the start of the body."""
    words = " ".join(options)
    script = f"curl -s -m 20 --cacert {CERTIFICATE} {words} -w '\\n%{{http_code}}' '{url}'; echo \" exit $?\""
    return locked.ssh("desk", script).stdout


def at_the_gateway(locked: Running, name: str) -> str:
    """The option that leads a name that does not exist in there to the gateway all the same."""
    return f"--connect-to {name}::{locked.plan.gateway.workspace_address}:"


@pytest.mark.parametrize("name", ["docs.example.org", "one.pages.example.org"])
def test_a_name_on_the_list_is_reached_with_tls_end_to_end(locked: Running, name: str) -> None:
    assert fetch(locked, f"https://{name}/").split() == [*BODY.split(), name, "200", "exit", "0"]
    assert fetch(locked, f"http://{name}/").split() == [*BODY.split(), name, "200", "exit", "0"]


def test_what_a_desktop_sent_to_a_name_and_received_from_it_is_counted(locked: Running) -> None:
    name = "docs.example.org"

    def counted() -> dict[str, int]:
        found = json.loads(locked.inv("egress.traffic", locked.name, "--json").stdout)
        rows = [row for row in found["traffic"] if (row["desktop"], row["name"]) == ("desk", name)]
        return {part: sum(row[part] for row in rows) for part in ("connections", "sent", "received")}

    before = counted()
    fetch(locked, f"https://{name}/")
    after = wait_for("the connection to be counted", lambda: (now := counted()) != before and now, COUNTED_SECONDS)
    assert after["connections"] == before["connections"] + 1
    assert after["sent"] > before["sent"] and after["received"] >= before["received"] + len(BODY)


def test_a_name_on_the_list_has_the_gateways_address_and_others_do_not_exist(locked: Running) -> None:
    answer = locked.ssh("desk", "getent ahosts docs.example.org").stdout
    assert {line.split()[0] for line in answer.splitlines()} == {locked.plan.gateway.workspace_address}
    for name in (LATER, "pages.example.org", "docs.example.org.evil.test"):
        assert locked.ssh("desk", f"getent ahosts {name}", check=False).returncode == 2, name


def test_a_name_that_is_not_on_the_list_is_refused_with_a_page_and_at_once(locked: Running) -> None:
    page = fetch(locked, f"http://{LATER}/", at_the_gateway(locked, LATER))
    assert "403 exit 0" in page
    assert f"./inv egress.allow {locked.name} {LATER}" in page
    # The connection is closed before any answer of a server: 35 is curl's word for that; 28 would be a hang.
    assert fetch(locked, f"https://{LATER}/", at_the_gateway(locked, LATER)).split() == ["000", "exit", "35"]


def test_an_allowed_name_that_points_inside_is_refused(locked: Running) -> None:
    assert "403 exit 0" in fetch(locked, f"http://{REBINDING}/")


def test_addresses_and_other_resolvers_are_refused(locked: Running, site_host: SiteHost) -> None:
    outside = site_host.internet_address
    answers = probe.connect(locked, "desk", [(outside, port) for port in (53, 80, 443, 853, site_host.port)])
    assert set(answers.values()) == {"refused"}


def test_ports_of_its_own_lead_to_these_ports_alone(locked: Running, site_host: SiteHost) -> None:
    lead = locked.ssh("desk", "getent ahostsv4 git.example.org").stdout.split()[0]
    answers = probe.connect(locked, "desk", [(lead, site_host.port), (lead, 22), (lead, 23)])
    # 22 is the router's here, although the gateway itself is managed over SSH.
    assert answers == {f"{lead}:{site_host.port}": "open", f"{lead}:22": "open", f"{lead}:23": "refused"}


def test_a_refusal_is_told_and_what_it_suggests_allows_the_name(locked: Running) -> None:
    fetch(locked, f"http://{LATER}/", at_the_gateway(locked, LATER))
    output = [json.loads(line) for line in locked.inv("egress.denied", locked.name, "--json").stdout.splitlines()]
    mine = [event for event in output if event["target"] == f"{LATER}:80"]
    assert mine, output[-5:]
    assert mine[-1]["desktop"] == "desk"
    assert mine[-1]["allow"] == f"./inv egress.allow {locked.name} {LATER}"
    locked.inv("egress.allow", locked.name, LATER)
    try:
        assert fetch(locked, f"https://{LATER}/").split() == [*BODY.split(), LATER, "200", "exit", "0"]
    finally:
        locked.inv("egress.forbid", locked.name, LATER)
    # The desktop's own resolver may remember the name for a while; the router does not.
    assert fetch(locked, f"https://{LATER}/", at_the_gateway(locked, LATER)).split() == ["000", "exit", "35"]


def test_a_closed_name_is_reached_by_nobody_and_what_was_open_ends(locked: Running) -> None:
    name, unit = "docs.example.org", "held-open"
    # Greets, and waits for an answer to nothing: only the end of its connection ends it.
    held = f"openssl s_client -quiet -ign_eof -connect {name}:443 -servername {name}"
    locked.ssh("desk", f"sudo systemd-run -q --collect --unit {unit} --property RuntimeMaxSec=600 {held}")
    door = f"{locked.plan.gateway.workspace_address}:443"

    def established() -> str:
        return locked.ssh("gateway", f"sudo ss -Htn state established src {door}").stdout.strip()

    wait_for("the connection", established, COUNTED_SECONDS)
    locked.inv("egress.close", locked.name, name)
    try:
        assert not established()
        assert fetch(locked, f"https://{name}/").split() == ["000", "exit", "35"]
        listed = json.loads(locked.inv("egress.list", locked.name, "--json").stdout)
        assert [row["entry"] for row in listed["closed"]] == [name]
    finally:
        locked.inv("egress.reopen", locked.name, name)
        locked.ssh("desk", f"sudo systemctl stop {unit}", check=False)
    assert fetch(locked, f"https://{name}/").split() == [*BODY.split(), name, "200", "exit", "0"]


def test_a_name_that_is_asked_about_is_held_until_a_person_allows_it(locked: Running) -> None:
    url = f"https://{PAY}/"
    script = f"for n in $(seq {TRIES}); do curl -sf -m 120 --cacert {CERTIFICATE} {url} && exit; done; exit 1"
    with ThreadPoolExecutor(1) as pool:
        client = pool.submit(locked.ssh, "desk", script, check=False)
        ticket = waiting(locked)
        assert (ticket["desktop"], ticket["name"], ticket["port"]) == ("desk", PAY, 443)
        # Root in the desktop has no way to answer for the person.
        posted = f"sudo curl -s -m 20 -o /dev/null -w '%{{http_code}}' -d for=1h http://ask.deskyard/{PAY}"
        locked.ssh("desk", posted, check=False)
        assert waiting(locked)["id"] == ticket["id"]
        locked.inv("egress.decide", locked.name, ticket["id"], "--for", "15m")
        done = client.result()
    assert (done.returncode, done.stdout) == (0, f"{BODY} {PAY}")


def test_what_a_person_refused_is_refused_and_its_page_says_so(locked: Running) -> None:
    fetch(locked, f"https://{PAY}/")  # allowed by the test before, or a ticket by now
    ticket = tickets(locked)[-1]
    locked.inv("egress.decide", locked.name, ticket["id"], "--refuse", "--reason", "not this shop")
    assert fetch(locked, f"https://{PAY}/").split() == ["000", "exit", "35"]
    assert "not this shop" in fetch(locked, f"http://ask.deskyard/{PAY}")
    chain = json.loads(locked.inv("access.audit", locked.name, "--json").stdout)
    mine = [entry["result"] for entry in chain if entry.get("ticket") == ticket["id"]]
    assert mine[0] == "raised" and mine[-1] == "refused"


def waiting(locked: Running) -> dict[str, Any]:
    """The ticket that waits for a person, as soon as there is one."""
    with start_inv(locked, "egress.ask", locked.name, "--follow", "--json") as following:
        assert following.stdout is not None
        return next(found for found in map(json.loads, following.stdout) if found["state"] == "waiting")


def tickets(locked: Running) -> list[dict[str, Any]]:
    """All tickets, the oldest first."""
    return [json.loads(line) for line in locked.inv("egress.ask", locked.name, "--json").stdout.splitlines()]


def test_a_locked_workspace_holds(locked: Running, ours: Running) -> None:
    done = locked.inv(
        "workspace.verify", locked.name, "--against", ours.name, "--json", timeout=VERIFY_SECONDS, check=False
    )
    report = json.loads(done.stdout)
    wrong = [rule for rules in report["rules"].values() for rule in rules["wrong"]]
    wrong += [f"{probe['id']}: {probe['outcome']} {probe['seen_by']}" for probe in report["probes"] if not probe["ok"]]
    assert wrong == []
    assert (done.returncode, report["ok"]) == (0, True)
