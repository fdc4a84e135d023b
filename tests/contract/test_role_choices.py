"""What roles do for a choice that cannot be had everywhere: rendered, and their scripts run on what they touch."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from deskyard.model.image_base import SUITES
from tests.support.requirements import need_programs, need_root

ROLES = Path(__file__).resolve().parents[2] / "ansible/roles"
TAKE_KEY = ROLES / "browser/files/take_key.sh"
SNAPSHOT = ROLES / "package_snapshot/files"
MakeKey = Callable[..., tuple[str, Path]]


def render(role: str, template: str, **variables: Any) -> str:
    defaults = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROLES / role / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,  # as Ansible has it
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(template).render({**defaults, "ansible_managed": "managed", **variables})


def test_tigervnc_is_on_the_loopback_address_without_a_password() -> None:
    unit = render("vnc_server", "vnc-server.service.j2")
    assert "ExecStart=/usr/bin/Xtigervnc :1 -localhost=1 -interface 127.0.0.1 -rfbport 5901 \\\n" in unit
    assert "-SecurityTypes None -UseBlacklist=0 -AlwaysShared -AcceptSetDesktopSize=0" in unit
    assert "kasm" not in unit.lower()
    assert unit.count("ExecStart=") == 1


def test_kasmvnc_answers_where_the_gateway_looks_and_asks_nobody_outside() -> None:
    unit = render("vnc_server", "vnc-server.service.j2", vnc_server_kind="kasmvnc")
    start = unit.partition("ExecStart=")[2].partition("\n#")[0]
    assert start.startswith("/usr/bin/Xkasmvnc :1 ")
    for option in (
        "-interface 0.0.0.0 -websocketPort 6080",
        "-publicIP 127.0.0.1",
        "-SecurityTypes None",
        "-AlwaysShared",
    ):
        assert option in start
    assert "Xtigervnc" not in unit


def test_kasmvnc_is_pinned_for_every_distribution() -> None:
    releases = yaml.safe_load((ROLES / "vnc_server/defaults/main.yml").read_text())["vnc_server_kasmvnc_releases"]
    assert set(releases) == set(SUITES.values())
    for suite, release in releases.items():
        assert f"_{suite}_" in release["url"]
        assert release["url"].startswith("https://")
        assert len(bytes.fromhex(release["sha256"])) == 32


def test_chromes_repository_is_signed_by_the_pinned_key_alone() -> None:
    keyring = "/etc/apt/keyrings/pinned.gpg"
    source = render("browser", "google-chrome.sources.j2", __browser_chrome_keyring=keyring)
    assert "URIs: https://dl.google.com/linux/chrome/deb/\n" in source
    assert f"Signed-By: {keyring}\n" in source
    assert "Architectures: amd64\n" in source


@pytest.fixture
def make_key(tmp_path: Path) -> MakeKey:
    """Makes keys of a vendor, and the file in which it publishes them; the first one's fingerprint, and the file."""
    need_programs("gpg", "gpg-agent")

    def make(*names: str) -> tuple[str, Path]:
        home = tmp_path / "vendor"
        home.mkdir(mode=0o700)
        gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
        try:
            for name in names:
                made = [*gpg, "--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "never"]
                subprocess.run(made, check=True, timeout=60, capture_output=True)
            output = subprocess.run([*gpg, "--with-colons", "--list-keys", names[0]], **TEXT).stdout
            published = subprocess.run([*gpg, "--armor", "--export"], **TEXT).stdout
        finally:
            subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False, timeout=30)
        folder = tmp_path / "untrusted"
        folder.mkdir(mode=0o700)
        (folder / "vendor.asc").write_text(published)
        fingerprint = next(line.split(":")[9] for line in output.splitlines() if line.startswith("fpr:"))
        return fingerprint, folder / "vendor.asc"

    return make


TEXT: dict[str, Any] = {"check": True, "timeout": 60, "capture_output": True, "text": True}


def take(keys: Path, fingerprint: str, keyring: Path) -> subprocess.CompletedProcess[str]:
    argv = ["sh", str(TAKE_KEY), str(keys), fingerprint, str(keyring)]
    return subprocess.run(argv, check=False, timeout=60, capture_output=True, text=True)


def test_pinned_key_is_taken_and_no_other(make_key: MakeKey, tmp_path: Path) -> None:
    fingerprint, keys = make_key("pinned@example.org", "other@example.org")
    keyring = tmp_path / "taken.gpg"
    assert take(keys, fingerprint, keyring).returncode == 0
    output = subprocess.run(
        ["gpg", "--homedir", str(tmp_path / "untrusted"), "--with-colons", "--show-keys", str(keyring)], **TEXT
    )
    lines = output.stdout.splitlines()
    assert [line.split(":")[9] for line in lines if line.startswith("fpr:")] == [fingerprint]
    assert f"{keyring.stat().st_mode & 0o777:o}" == "644"


def test_file_without_the_pinned_key_is_refused(make_key: MakeKey, tmp_path: Path) -> None:
    _, keys = make_key("other@example.org")
    refused = take(keys, "EB4C1BFD4F042F6DDDCCEC917721F63BD38B4796", tmp_path / "taken.gpg")
    assert refused.returncode != 0
    assert "holds no key EB4C1BFD4F042F6DDDCCEC917721F63BD38B4796" in refused.stderr
    assert not (tmp_path / "taken.gpg").exists()


def test_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    need_programs("gpg")
    (tmp_path / "page.html").write_text("<html>sign in first</html>")
    tmp_path.chmod(0o700)
    assert take(tmp_path / "page.html", "0" * 40, tmp_path / "taken.gpg").returncode != 0
    assert not (tmp_path / "taken.gpg").exists()


def around(apt: Path, script: str) -> str:
    """Run a script where /etc/apt is a folder of the test's, and /run is empty."""
    need_root("mounts")
    inside = f'mount --bind "{apt}" /etc/apt && mount -t tmpfs none /run && {script}'
    return str(subprocess.run(["unshare", "--mount", "sh", "-ec", inside], **TEXT).stdout)


@pytest.mark.parametrize("own", ["sources.list", "sources.list.d/debian.sources", "sources.list.d/ubuntu.sources"])
def test_distributions_sources_come_back_as_they_were(own: str, tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / own).write_text("ordinary\n")
    (tmp_path / "sources.list.d/vendor.sources").write_text("vendor\n")
    aside, back = f"sh {SNAPSHOT / 'set_aside.sh'}", f"sh {SNAPSHOT / 'put_back.sh'}"
    seen = around(tmp_path, f"{aside}; find /etc/apt -type f; {back}; test ! -e /run/package-snapshot")
    assert seen.split() == ["/etc/apt/sources.list.d/vendor.sources"]
    assert (tmp_path / own).read_text() == "ordinary\n"
    assert (tmp_path / "sources.list.d/vendor.sources").read_text() == "vendor\n"
