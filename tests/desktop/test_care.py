"""Updates, a free disk and who works, on a real apt, journal and logind of Debian."""

from collections.abc import Iterator
from typing import Any

import pytest

from deskyard.desktop import program
from deskyard.guest import care as guest_care
from deskyard.plan.account import AGENT
from deskyard.site.guest_program import START
from tests.desktop.lab import Lab

# Two sources of the distribution's form, each with a newer version of a package that is installed.
SOURCES = r"""
set -e
mkdir -p /srv/care && cd /srv/care
package() {
  mkdir -p tree/DEBIAN
  { printf 'Package: %s\nVersion: %s\nArchitecture: all\n' $1 $2
    printf 'Maintainer: x <x@example.org>\nDescription: x\n'; } >tree/DEBIAN/control
  dpkg-deb --build --root-owner-group tree $3/$1_$2_all.deb >/dev/null
  rm -r tree
}
source() {
  mkdir -p $1
  package $2 2 $1
  deb=$1/$2_2_all.deb
  { dpkg-deb -f $deb; echo "Filename: ./$2_2_all.deb"; echo "Size: $(stat -c %s $deb)"
    echo "SHA256: $(sha256sum <$deb | cut -d' ' -f1)"; echo; } >$1/Packages
  { printf 'Origin: Debian\nLabel: %s\nSuite: %s\nVersion: 13\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n' $3 $4
    echo " $(sha256sum <$1/Packages | cut -d' ' -f1) $(stat -c %s $1/Packages) Packages"; } >$1/Release
  echo "deb [trusted=yes] file:/srv/care/$1 ./" >>list
}
rm -f list
package care-hole 1 . && package care-plain 1 .
dpkg --install care-hole_1_all.deb care-plain_1_all.deb >/dev/null
source security care-hole Debian-Security stable-security
source main care-plain Debian stable
mkdir -p aside && find /etc/apt/sources.list /etc/apt/sources.list.d -type f -exec mv -t aside {} +
mv list /etc/apt/sources.list.d/care.list
"""
RESTORE = r"""
rm /etc/apt/sources.list.d/care.list
cd /srv/care/aside
for file in *; do
  case $file in
    sources.list) mv $file /etc/apt/ ;;
    *) mv $file /etc/apt/sources.list.d/ ;;
  esac
done
dpkg --purge care-hole care-plain >/dev/null
rm -r /srv/care /var/lib/apt/lists && mkdir /var/lib/apt/lists
"""
VERSIONS = "dpkg-query --show --showformat='${Package} ${Version}\n' care-hole care-plain"


@pytest.fixture
def newer(lab: Lab) -> Iterator[Lab]:
    """A desktop for which there are two updates, one of them for security."""
    lab.do("desk", SOURCES)
    yield lab
    lab.do("desk", RESTORE)


def ask(lab: Lab, do: str, **more: Any) -> dict[str, Any]:
    return program.ask(lab.plan, "desk", guest_care, {"do": do, **more})


def look(lab: Lab) -> dict[str, Any]:
    return ask(lab, "look", mark=START, account=AGENT)


def test_security_updates_are_installed_and_all_if_wanted(newer: Lab) -> None:
    assert ask(newer, "update", which="security") == {"updated": ["care-hole"], "restart": False}
    assert newer.do("desk", VERSIONS).stdout == "care-hole 2\ncare-plain 1\n"
    assert ask(newer, "update", which="all") == {"updated": ["care-plain"], "restart": False}
    assert newer.do("desk", VERSIONS).stdout == "care-hole 2\ncare-plain 2\n"
    assert ask(newer, "update", which="all") == {"updated": [], "restart": False}


def test_cleaning_frees_the_cache_and_touches_nothing_of_home(newer: Lab) -> None:
    newer.do("desk", "cp /srv/care/care-hole_1_all.deb /var/cache/apt/archives/; echo mine > /home/agent/mine")
    before = newer.do("desk", "find /home -printf '%p %s %T@\n' | sort").stdout
    assert ask(newer, "clean")["freed"] >= 0
    assert newer.do("desk", "ls /var/cache/apt/archives/*.deb", check=False).returncode != 0
    assert newer.do("desk", "find /home -printf '%p %s %T@\n' | sort").stdout == before


def test_task_of_the_agent_and_whoever_asks_for_no_restart_are_seen(lab: Lab) -> None:
    assert look(lab)["busy"] == []
    lab.do(
        "desk",
        f"systemd-run --quiet --unit=task --uid={AGENT} python3 -c 'import time; time.sleep(600)' '{START}'",
    )
    lab.do("desk", "systemd-run --quiet --unit=holding systemd-inhibit --who=copying --what=shutdown sleep 600")
    lab.do("desk", "timeout 60 sh -c 'until systemd-inhibit --list | grep -q copying; do sleep 0.1; done'")
    try:
        assert look(lab)["busy"] == ["a task of the agent", "copying"]
    finally:
        lab.do("desk", "systemctl stop task holding")
    assert look(lab)["busy"] == []


def test_restart_that_is_due_and_the_disk_are_told(lab: Lab) -> None:
    lab.do("desk", "touch /run/reboot-required")
    try:
        found = look(lab)
    finally:
        lab.do("desk", "rm /run/reboot-required")
    assert (found["restart"], 0 < found["used"] < 100) == (True, True)
