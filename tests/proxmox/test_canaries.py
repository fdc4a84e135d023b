"""Canary secrets: in no state, log, command line, API call, machine or output, not even with all differences shown."""

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pulumi
import pytest

import stacks.program
from deskyard.declaration.declaration import Declared
from deskyard.gateway.machine import tls
from deskyard.host.places import places
from deskyard.site import certificate_authority
from deskyard.site.management_key import private_key_file
from stacks.proxmox import ClusterWorkspace
from tests.proxmox.canaries import Canaries, watching
from tests.proxmox.inhabited import Inhabitants
from tests.proxmox.rack import SECRET_CANARY, SITE, Rack, without_guests
from tests.support.inv import inv

pytestmark = pytest.mark.sampled

PASSPHRASE = "canary-77ab-passphrase"
DOMAIN = "desks.example.org"
HOSTNAME = f"lab.{DOMAIN}"
PLACES = {
    "state",
    "files",
    "API calls",
    "machines",
    "cluster",
    "agents",
    "command lines",
    "gateway",
    "engine",
    "output",
}


@pytest.fixture
def canaries(
    rack: Rack, inhabitants: Inhabitants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Canaries]:
    """A site whose operator brings a certificate, and all its secrets."""
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
    key = tls.ensure_key(tmp_path / "door.key")
    authority = certificate_authority.authority(SITE, DOMAIN)
    (tmp_path / "door.pem").write_text(authority.sign(tls.request(key, HOSTNAME), HOSTNAME))
    rack.site(certificate={"chain": str(tmp_path / "door.pem"), "key": str(tmp_path / "door.key")})
    secrets = {
        "token": SECRET_CANARY,
        "passphrase": PASSPHRASE,
        "certificate": key,
        "management key": private_key_file(SITE).read_text(),
        "authority": (places().sites / SITE / "ca.key").read_text(),
    }
    found = Canaries(rack, inhabitants, secrets)
    with watching(found, monkeypatch):
        yield found


def ask(canaries: Canaries, capfd: pytest.CaptureFixture[str], *arguments: str) -> None:
    """Run a task, and keep what it prints."""
    output = inv(capfd, *arguments)
    canaries.see("output", output.out, output.err)
    assert output.code == 0, output.err


def show_all_differences(canaries: Canaries) -> None:
    """What the engine itself shows with `--diff`; it is kept with all else that it prints."""
    canaries.rack.declare("lab", "dev1:pro")._select().preview(diff=True, refresh=True)


def test_no_secret_is_in_anything_that_is_kept_shown_sent_or_started(
    canaries: Canaries, capfd: pytest.CaptureFixture[str]
) -> None:
    canaries.rack.declare("lab", "dev1")
    for task in ("workspace.up", "workspace.status"):
        ask(canaries, capfd, task, "lab")
    canaries.rack.declare("lab", "dev1:pro")
    ask(canaries, capfd, "workspace.preview", "lab", "--json")
    show_all_differences(canaries)
    assert canaries.leaks() == {}
    # All of that was looked into, and each secret was in use.
    assert {place for place, texts in canaries.seen.items() if any(texts)} == PLACES
    program = canaries.inhabitants.program("gateway.lab")
    assert program.pair is not None
    assert program.pair.key == canaries.secrets["certificate"]
    started = b"\n".join(canaries.seen["command lines"])
    # Those that live long; a command of ssh may begin and end between two looks, and is recorded whole elsewhere.
    for name in (b"pulumi ", b"pulumi-resource-proxmoxve ", b"stacks.provider "):
        assert name in started
    assert any(b"cores" in line for line in canaries.seen["engine"])


def test_a_build_that_leaks_is_found_wherever_it_does(
    canaries: Canaries, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # What does not differ is in no difference.
    secrets, again = canaries.secrets, itertools.count()

    def leaking(name: str, declared: Declared) -> ClusterWorkspace:
        def describe(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
            if args.type_ != "proxmoxve:index/vmLegacy:VmLegacy":
                return None
            leak = f"{secrets['token']} {next(again)}"
            return pulumi.ResourceTransformationResult({**args.props, "description": leak}, args.opts)

        pulumi.runtime.register_stack_transformation(describe)
        pulumi.log.info(secrets["passphrase"])
        print(secrets["token"])
        log = places().workspace(SITE, name) / "debug.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(secrets["management key"])
        subprocess.run(["sh", "-c", "sleep 0.2", secrets["certificate"]], check=True, timeout=30)
        return without_guests(name, declared)

    monkeypatch.setattr(stacks.program, "_on_cluster", leaking)
    canaries.rack.declare("lab", "dev1").up()
    canaries.see("output", *capfd.readouterr())
    assert canaries.leaks() == {
        "state": {"token"},
        "API calls": {"token"},
        "machines": {"token"},
        "output": {"token"},
        "engine": {"passphrase"},
        "files": {"management key"},
        "command lines": {"certificate"},
    }
    show_all_differences(canaries)
    assert canaries.leaks()["engine"] == {"passphrase", "token"}
