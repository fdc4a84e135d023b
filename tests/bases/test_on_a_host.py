"""Choices of the desktop, and a past day's packages, on a host of Debian 13: what runs where no vendor is reached."""

import re
from collections.abc import Iterator

import pytest

from deskyard.host.places import tree
from deskyard.image.base.bootstrap import apt_sources
from deskyard.plan.image.image import base_image
from tests.catalogue import workbench
from tests.catalogue.workbench import Workbench

pytestmark = pytest.mark.deep
SNAPSHOT_LIST = "/etc/apt/sources.list.d/package-snapshot.list"
# Every file of sources with what it says.
SOURCES = "find /etc/apt/sources.list* -type f | sort | while read -r file; do echo $file; cat $file; done"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A host with the account of agents."""
    with workbench.host_with(tmp_path_factory, "agent_user") as made:
        yield made


def changes(output: str) -> int:
    found = re.search(r"changed=(\d+)", output)
    assert found, output
    return int(found[1])


def tasks_from(name: str) -> str:
    """The playbook that applies one file of tasks of each role."""
    return workbench.PLAYBOOK.replace('"{{ image_role }}"\n', f'"{{{{ image_role }}}}"\n        tasks_from: {name}\n')


def archive_of_two_versions(bench: Workbench) -> None:
    """Install version 1 of a package on the host, and offer version 2 in an archive of its own."""
    bench.do("""
    mkdir -p /root/archive && cd /root/archive
    for version in 1 2; do
      mkdir -p made/DEBIAN
      printf 'Package: of-the-day\\nVersion: %s\\nArchitecture: all\\n' $version >made/DEBIAN/control
      printf 'Maintainer: nobody <nobody@example.org>\\nDescription: a package\\n' >>made/DEBIAN/control
      dpkg-deb --root-owner-group --build made $version.deb >/dev/null
    done
    dpkg -i 1.deb >/dev/null
    { dpkg-deb --field 2.deb; echo "Filename: ./2.deb"; echo "Size: $(stat -c %s 2.deb)"
      echo "SHA256: $(sha256sum 2.deb | cut -d ' ' -f 1)"; } >Packages
    echo 'deb [trusted=yes] file:/root/archive ./' >/etc/apt/sources.list.d/of-the-day.list
    apt-get update -q >/dev/null
    """)


def vendors_keys(bench: Workbench) -> str:
    """A vendor's file of two keys on the host; the first one's fingerprint."""
    script = """
    apt-get install -qy --no-install-recommends gpg gpg-agent >/dev/null
    mkdir -m 700 -p /root/vendor && cd /root/vendor
    for name in pinned other; do
      gpg --homedir . --batch --quiet --passphrase '' --quick-gen-key $name@example.org ed25519 sign never
    done
    gpg --homedir . --armor --export >/root/vendor.asc
    gpg --homedir . --with-colons --list-keys pinned@example.org | awk -F: '$1 == "fpr" { print $10; exit }'
    gpgconf --homedir . --kill gpg-agent
    """
    return bench.do(script).stdout.split()[-1]


def test_kasmvnc_of_another_content_is_refused(bench: Workbench) -> None:
    bench.do("echo another package >/root/kasmvnc.deb")
    releases = {"trixie": {"url": "file:///root/kasmvnc.deb", "sha256": "0" * 64}}
    refused = bench.try_to_apply(
        ["vnc_server"], {"vnc_server_kind": "kasmvnc", "vnc_server_kasmvnc_releases": releases}
    )
    assert refused.code != 0
    assert "did not match" in refused.stdout


def test_kasmvnc_for_an_unknown_release_is_refused(bench: Workbench) -> None:
    releases = {"noble": {"url": "https://example.org/x.deb", "sha256": "0" * 64}}
    refused = bench.try_to_apply(
        ["vnc_server"], {"vnc_server_kind": "kasmvnc", "vnc_server_kasmvnc_releases": releases}
    )
    assert refused.code != 0
    assert "KasmVNC is pinned for noble on x86_64, this is trixie on x86_64" in refused.stdout.replace("\n", " ")


def test_chromes_repository_is_trusted_by_the_pinned_key_alone(bench: Workbench) -> None:
    fingerprint = vendors_keys(bench)
    chosen = {
        "browser_kind": "chrome",
        "browser_chrome_key_url": "file:///root/vendor.asc",
        # Nobody answers there: what comes after the repository is out of reach here.
        "browser_chrome_repository": "http://127.0.0.1:9/chrome",
    }
    refused = bench.try_to_apply(["browser"], chosen)
    assert refused.code != 0
    assert "holds no key EB4C1BFD4F042F6DDDCCEC917721F63BD38B4796" in refused.stdout
    assert bench.do("ls /etc/apt/sources.list.d/google-chrome.sources", check=False).code != 0

    keyring = f"/etc/apt/keyrings/browser-chrome-{fingerprint}.gpg"
    try:
        bench.try_to_apply(["browser"], {**chosen, "browser_chrome_key_fingerprint": fingerprint})
        source = bench.do("cat /etc/apt/sources.list.d/google-chrome.sources").stdout
        assert "URIs: http://127.0.0.1:9/chrome\n" in source
        assert f"Signed-By: {keyring}\n" in source
        output = bench.do(f"gpg --with-colons --show-keys {keyring}").stdout
        assert [line.split(":")[9] for line in output.splitlines() if line.startswith("fpr:")] == [fingerprint]
        assert bench.do("ls /tmp | grep -c ansible", check=False).stdout.strip() == "0"
    finally:
        bench.do("rm -f /etc/apt/sources.list.d/google-chrome.sources /etc/default/google-chrome /etc/apt/keyrings/*")


def test_past_days_sources_stand_for_the_ordinary_ones_while_they_last(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The archives of past days are out of reach here: today's mirror, asked as they are, stands for them.
    debian = base_image(tree(), "desktop").base.bootstrap
    output = {
        "package_snapshot_sources": [
            line.replace("deb ", "deb [check-valid-until=no] ") for line in apt_sources(debian)
        ]
    }
    before = bench.do(SOURCES).stdout
    bench.apply(["package_snapshot"], output)
    assert bench.do(SOURCES).stdout.splitlines() == [SNAPSHOT_LIST, *output["package_snapshot_sources"]]
    assert changes(bench.apply(["package_snapshot"], output).stdout) == 0
    bench.do("apt-get install -qy --no-install-recommends hello >/dev/null && hello", seconds=300)

    monkeypatch.setattr(workbench, "PLAYBOOK", tasks_from("restore"))
    assert changes(bench.apply(["package_snapshot"], output).stdout) == 2
    assert bench.do(SOURCES).stdout == before
    assert changes(bench.apply(["package_snapshot"], output).stdout) == 0


def test_what_a_base_disk_brought_is_upgraded_when_it_was_not_bootstrapped(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = "dpkg-query --show --showformat '${Version}' of-the-day"
    monkeypatch.setattr(workbench, "PLAYBOOK", tasks_from("packages"))
    try:
        archive_of_two_versions(bench)
        bench.apply(["guest_base"], {"guest_base_upgrade_packages": False})
        assert bench.do(version).stdout == "1"
        bench.apply(["guest_base"])
        assert bench.do(version).stdout == "2"
        assert changes(bench.apply(["guest_base"]).stdout) == 0
    finally:
        bench.do("dpkg --purge of-the-day >/dev/null; rm -rf /root/archive /etc/apt/sources.list.d/of-the-day.list")
