"""What makes a machine of a template itself: the parts of the program that write files, on folders of a test."""

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deskyard.guest.identity import from_template as identity
from deskyard.site.guest_program import source
from tests.support.requirements import need_root

SECONDS = 60
TEMPLATE, NAME, INSTANCE = "deskyard-template", "dev1", "deskyard-lab.dev1"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_values_come_as_they_are() -> None:
    own = {"NAME": "a b", "KEYS": "one'two\nthree $HOME `id` = x", "MAC": ""}
    assert identity.values("".join(f"{name}={value}\0" for name, value in own.items())) == own


def test_it_imports_what_every_start_of_python_has_and_what_is_built_in() -> None:
    # What else it imported would be waited for by whoever wants the machine.
    show = "import sys; print(*sorted(sys.modules))"
    before = subprocess.run([sys.executable, "-I", "-S", "-c", "import os; " + show], capture_output=True, text=True)
    program = source(identity).replace("    main()\n", f"    {show}\n")
    after = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=SECONDS)
    new = set(after.stdout.split()) - set(before.stdout.split())
    assert new <= {"fcntl", "pwd", "select", "time", "_stat", "stat"}, after


def test_a_text_is_replaced_wherever_it_stands_and_each_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "netplan").mkdir()
    private, other = tmp_path / "netplan/50-cloud-init.yaml", tmp_path / "netplan/other"
    private.write_text("mac: 02:aa\nmatch: 02:aa\n")
    private.chmod(0o600)
    other.write_bytes(b"\xff no text of ours")
    found = identity.files((str(tmp_path / "netplan"), str(tmp_path / "is-not-there")))
    assert sorted(found) == [str(private), str(other)]
    untouched = other.stat().st_ino
    identity.replace([*found, str(tmp_path / "gone")], "02:aa", "02:bb")
    assert (private.read_text(), mode(private)) == ("mac: 02:bb\nmatch: 02:bb\n", 0o600)
    assert (other.read_bytes(), other.stat().st_ino) == (b"\xff no text of ours", untouched)
    assert sorted(path.name for path in (tmp_path / "netplan").iterdir()) == ["50-cloud-init.yaml", "other"]


def test_host_key_is_kept_in_home_for_root_alone(tmp_path: Path) -> None:
    key, home = tmp_path / "ssh_host_ed25519_key", tmp_path / "home"
    home.mkdir()
    key.write_text("secret")
    key.chmod(0o600)
    (tmp_path / "ssh_host_ed25519_key.pub").write_text("public")
    (tmp_path / "ssh_host_ed25519_key.pub").chmod(0o644)
    identity.keep_host_key(str(key), str(home))
    kept = home / ".deskyard/identity"
    assert {path.name: (path.read_text(), mode(path)) for path in kept.iterdir()} == {
        "ssh_host_ed25519_key": ("secret", 0o600),
        "ssh_host_ed25519_key.pub": ("public", 0o644),
    }
    assert mode(kept) == mode(kept.parent) == 0o700
    assert [path.name for path in kept.parent.iterdir()] == ["identity"]


def test_owner_of_a_key_is_let_in_as_the_account_and_nobody_else_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root("gives files to another account")
    home = tmp_path / "home"
    home.mkdir()
    account = type("Account", (), {"pw_dir": str(home), "pw_uid": 4242, "pw_gid": 4343})
    monkeypatch.setattr(pwd, "getpwnam", {"deskyard": account}.__getitem__)
    identity.let_in("ssh-ed25519 A first\nssh-ed25519 B second", "deskyard")
    file = home / ".ssh/authorized_keys"
    assert file.read_text() == "ssh-ed25519 A first\nssh-ed25519 B second\n"
    for path, allowed in ((file, 0o600), (file.parent, 0o700)):
        assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (4242, 4343, allowed)


def test_first_boot_of_the_instance_is_over_and_names_it(tmp_path: Path) -> None:
    before = tmp_path / "instances" / TEMPLATE
    before.mkdir(parents=True)
    (before / "user-data.txt").write_text(f"hostname: {TEMPLATE}\n")
    (before / "user-data.txt.i").write_text(f"hostname: {TEMPLATE}\n")
    (before / "obj.pkl").write_bytes(TEMPLATE.encode())
    (before / "sem").mkdir()
    (before / "sem/config_ssh").write_text("done")
    (tmp_path / "instance").symlink_to(before)
    (tmp_path / "data").mkdir()
    for name in ("instance-id", "previous-instance-id", "previous-hostname", "set-hostname"):
        (tmp_path / "data" / name).write_text(f"{TEMPLATE}\n")
    identity.be_instance(str(tmp_path), TEMPLATE, INSTANCE)
    identity.replace(identity.named(str(tmp_path), INSTANCE), TEMPLATE, NAME)
    after = tmp_path / "instances" / INSTANCE
    assert str((tmp_path / "instance").readlink()) == f"/var/lib/cloud/instances/{INSTANCE}"
    assert {path.name for path in after.iterdir()} == {"user-data.txt", "user-data.txt.i", "sem"}
    assert (after / "user-data.txt").read_text() == (after / "user-data.txt.i").read_text() == f"hostname: {NAME}\n"
    data = {path.name: path.read_text().strip() for path in (tmp_path / "data").iterdir()}
    assert data == {
        "instance-id": INSTANCE,
        "previous-instance-id": INSTANCE,
        "previous-hostname": NAME,
        "set-hostname": NAME,
    }


def log_of(*records: bytes) -> int:
    """What /dev/kmsg gives: each read a record, and then nothing for now."""
    ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_DIRECT)
    for record in records:
        os.write(theirs, record)
    return ours


def test_records_are_read_until_there_is_none() -> None:
    log = log_of(b"6,1,0,-;first", b"6,2,0,-;" + identity.RESEEDED)
    assert identity.records(log) == [b"6,1,0,-;first", b"6,2,0,-;" + identity.RESEEDED]
    assert identity.records(log) == []


def test_a_kernel_that_draws_no_new_numbers_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "RESEED_SECONDS", 0.0)
    monkeypatch.setattr(identity, "put", lambda *_: None)
    monkeypatch.setattr(identity, "records", lambda _: [b"6,1,0,-;something else"])
    monkeypatch.setattr(os, "open", lambda *_: 0)
    with pytest.raises(SystemExit, match="did not draw new random numbers"):
        identity.draw_random_numbers("seed")


def test_a_program_that_fails_is_named_and_ends_it() -> None:
    identity.finish(identity.start("/bin/sh", "-c", "exit 0"), "fine")
    with pytest.raises(SystemExit, match="ssh-keygen ended with 3"):
        identity.finish(identity.start("/bin/sh", "-c", "exit 3"), "ssh-keygen")
