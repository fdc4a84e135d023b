"""Keys reach the desktop that they name; nothing and nobody else has them, on the way or afterwards.

The canaries are looked for in everything that the hosts wrote, their journals, what Deskyard and Pulumi keep and say,
and the command lines and environments of all processes.
"""

import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.desktop import key_delivery, program
from deskyard.errors import SiteError
from deskyard.guest import keys
from deskyard.host.places import places
from deskyard.plan import key_file
from deskyard.site import guest_program
from tests.desktop.lab import Lab
from tests.desktop.owner import Owner
from tests.support.processes import watching

ANTHROPIC, OPENAI, NEXT = "canary-2c9e-anthropic", "canary-81d0-openai", "canary-f3a7-rotated"
SHOWN = "canary-05be-on-a-command-line"
HOSTS = ("gateway", "desk", "other")
FILE = key_file.PATH.lstrip("/")
JOURNAL = "journalctl --sync; journalctl --all --output=export --no-pager"


def kept_in(lab: Lab, owner: Owner, canary: str) -> set[str]:
    """Where a canary is now: files of hosts, journals, files of the owner, what was said."""
    return all_kept_in(lab, owner, canary)[canary]


def all_kept_in(lab: Lab, owner: Owner, *canaries: str) -> dict[str, set[str]]:
    """Where each of the canaries is now; everything is read once."""
    read: Iterator[tuple[str, bytes]] = itertools.chain(
        ((f"{host}:{path}", text) for host in HOSTS for path, text in files(lab.written(host))),
        ((f"{host}:journal", lab.do(host, JOURNAL).stdout.encode()) for host in HOSTS),
        ((f"owner:{path}", text) for folder in (owner.folder, places().state) for path, text in files(folder)),
        (("said", text.encode()) for text in owner.said),
    )
    found: dict[str, set[str]] = {canary: set() for canary in canaries}
    for place, text in read:
        for canary in canaries:
            if canary.encode() in text:
                found[canary].add(place)
    return found


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(folder)), path.read_bytes()


def test_a_key_is_on_the_desktop_that_names_it_and_nowhere_else(lab: Lab, owner: Owner) -> None:
    owner.declare(desk=[], other=[])
    with watching() as seen:
        owner.set_key("anthropic", ANTHROPIC)
        owner.set_key("openai", OPENAI)
        owner.declare(desk=["anthropic"], other=["openai"])
        said = owner.up()
        listed = owner.keys("desk"), owner.keys("other")
    assert "desk: anthropic (changed)" in said
    assert seen.looks > 10
    assert any(b"desktop" in line for line in seen.shown["cmdline"] | seen.shown["environ"])
    assert seen.places_of(ANTHROPIC) == seen.places_of(OPENAI) == []
    kept = {ANTHROPIC: {f"desk:{FILE}"}, OPENAI: {f"other:{FILE}"}}
    assert all_kept_in(lab, owner, ANTHROPIC, OPENAI) == kept
    assert [report["in_step"] for report in listed] == [True, True]


def test_a_key_on_a_command_line_would_be_seen(lab: Lab, owner: Owner) -> None:
    with watching() as seen:
        lab.link.run("desk", ["sudo", "sh", "-c", "sleep 1; : $1", "sh", SHOWN], timeout=60)
    assert "cmdline" in seen.places_of(SHOWN)
    found = kept_in(lab, owner, SHOWN)
    assert "desk:journal" in found and any(place.startswith("desk:var/log/journal") for place in found)


def test_agent_reads_the_file_and_a_stranger_does_not(lab: Lab, owner: Owner) -> None:
    key_delivery.deliver(lab.plan, {"desk": {"anthropic": ANTHROPIC, "my-own": 'a$b`c"#;=&'}, "other": {}})
    assert lab.do("desk", f"stat -c '%A %U %G' {key_file.PATH}").stdout.split() == ["-rw-r-----", "root", "agent"]
    script = f'set -eu; . {key_file.PATH}; printf "%s %s" "$ANTHROPIC_API_KEY" "$MY_OWN_API_KEY"'
    values = f'{ANTHROPIC} a$b`c"#;=&'
    assert lab.do("desk", script, user="agent").stdout == values
    # A service of the agent's gets the same.
    show = "printenv ANTHROPIC_API_KEY MY_OWN_API_KEY | paste -sd' '"
    service = f'systemd-run --pipe --wait --quiet -p User=agent -p EnvironmentFile={key_file.PATH} sh -c "{show}"'
    assert lab.do("desk", service).stdout.strip() == values
    refused = lab.do("desk", f"cat {key_file.PATH}", user="stranger", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Permission denied" in refused.stderr


def test_rotation_and_removal_need_no_restart(lab: Lab, owner: Owner) -> None:
    owner.declare(desk=[], other=[])
    owner.set_key("anthropic", ANTHROPIC)
    owner.set_key("openai", OPENAI)
    owner.declare(shared=["openai"], desk=["anthropic"], other=[])
    owner.up()
    started = lab.do("desk", "systemctl show -p UserspaceTimestampMonotonic").stdout
    assert "desk: anthropic, openai (unchanged)" in owner.up()

    owner.set_key("anthropic", NEXT)
    states = {row["name"]: row["state"] for row in owner.keys("desk")["keys"]}
    assert states == {"anthropic": "changed", "openai": "in step"}
    assert "desk: anthropic, openai (changed)" in owner.up()
    assert owner.keys("desk")["in_step"]
    assert all_kept_in(lab, owner, ANTHROPIC, NEXT) == {ANTHROPIC: set(), NEXT: {f"desk:{FILE}"}}

    owner.declare(desk=[], other=["openai"])
    assert {row["state"] for row in owner.keys("desk")["keys"]} == {"left over"}
    said = owner.up()
    assert "desk: no keys (removed)" in said and "other: openai (unchanged)" in said
    assert not (lab.root("desk") / FILE).exists()
    assert all_kept_in(lab, owner, NEXT, OPENAI) == {NEXT: set(), OPENAI: {f"other:{FILE}"}}
    assert lab.do("desk", "systemctl show -p UserspaceTimestampMonotonic").stdout == started


def test_keys_are_taken_back_when_the_declaration_holds_none_any_more(lab: Lab, owner: Owner) -> None:
    owner.declare(desk=[], other=[])
    owner.set_key("anthropic", ANTHROPIC)
    owner.declare(desk=["anthropic"], other=[])
    owner.up()
    text = owner.file.read_text()
    owner.declare(desk=[], other=[])
    kept = re.sub(r"  deskyard:keys:\n    anthropic:\n      secure: \S+\n", "", owner.file.read_text())
    assert "deskyard:keys" in text and "deskyard:keys" not in kept
    owner.file.write_text(kept)
    assert "desk: no keys (removed)" in owner.up()
    assert kept_in(lab, owner, ANTHROPIC) == set()
    # From now on there is nothing to ask desktops for.
    assert "keys" not in owner.up()


def test_what_is_on_the_desktop_is_compared_not_remembered(lab: Lab, owner: Owner) -> None:
    owner.declare(desk=[], other=[])
    first = owner.set_key("anthropic", ANTHROPIC)
    owner.declare(desk=["anthropic"], other=[])
    assert [row["state"] for row in owner.keys("desk")["keys"]] == ["missing"]
    owner.up()
    row = owner.keys("desk")["keys"][0]
    assert (row["name"], row["variable"], row["state"]) == ("anthropic", "ANTHROPIC_API_KEY", "in step")
    assert row["fingerprint"] == first["fingerprint"] != owner.set_key("anthropic", NEXT)["fingerprint"]
    lab.do("desk", f"chmod 0644 {key_file.PATH}")
    owner.set_key("anthropic", ANTHROPIC)
    assert (owner.keys("desk")["guarded"], owner.keys("desk")["in_step"]) == (False, False)
    owner.up()
    assert owner.keys("desk")["in_step"]


def test_half_a_request_changes_nothing(lab: Lab, owner: Owner) -> None:
    key_delivery.deliver(lab.plan, {"desk": {"anthropic": ANTHROPIC}, "other": {}})
    source = guest_program.source(keys)
    request = json.dumps(key_delivery.request(text=key_file.text({"anthropic": NEXT})))
    remote = ["sudo", "-n", "python3", "-I", "-c", guest_program.START, str(len(source))]
    for cut in (0, 40, len(request) - 1):
        done = lab.link.run("desk", remote, timeout=60, stdin=source + request[:cut], check=False)
        assert done.code != 0 and NEXT not in done.stdout + done.stderr
    assert ANTHROPIC in (lab.root("desk") / FILE).read_text()
    assert list((lab.root("desk") / FILE).parent.iterdir()) == [lab.root("desk") / FILE]


def test_a_desktop_that_fails_keeps_no_other_from_its_keys(lab: Lab, owner: Owner) -> None:
    lab.do("desk", "groupmod -n elsewhere agent")
    try:
        with pytest.raises(SiteError, match="there is no group agent") as caught:
            key_delivery.deliver(lab.plan, {"desk": {"anthropic": ANTHROPIC}, "other": {"openai": OPENAI}})
    finally:
        lab.do("desk", "groupmod -n agent elsewhere")
    assert caught.value.value == "lab/desk"
    assert all_kept_in(lab, owner, ANTHROPIC, OPENAI) == {ANTHROPIC: set(), OPENAI: {f"other:{FILE}"}}


def test_a_desktop_with_another_host_key_gets_nothing(lab: Lab, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "REACH_SECONDS", 0.0)
    right = lab.link.known_hosts.read_text()
    strange = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(owner.folder / "strange")])
    assert strange.returncode == 0
    lab.link.pin("desk", " ".join((owner.folder / "strange.pub").read_text().split()[:2]))
    try:
        with pytest.raises(SiteError, match="Host key verification failed"):
            key_delivery.deliver(lab.plan, {"desk": {"anthropic": ANTHROPIC}, "other": {}})
    finally:
        lab.link.known_hosts.write_text(right)
    assert kept_in(lab, owner, ANTHROPIC) == set()
