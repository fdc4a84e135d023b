"""An inventory holds what is installed, and what the files of the packages say."""

from pathlib import Path

import pytest

from deskyard.host.command import Result, run
from deskyard.host.vm.guest_boot import Guest
from deskyard.image.check.inventory import FIELDS, LICENCES, PACKAGES, RELEASE, distribution, licences, take
from tests.support.requirements import need_programs

ANSWERS = {
    PACKAGES: (
        "installed\tsudo\t1.9\tamd64\tsudo\t1.9\t6000\n"
        "config-files\tvim\t9\tamd64\tvim\t9\t3000\n"
        "triggers-pending\tadduser\t3\tall\tadduser\t3\t\n"
        "installed\tlibstdc++6\t14.2\tamd64\tgcc-14\t14.2\t2700\n"
    ),
    RELEASE: 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n',
    LICENCES: "/usr/share/doc/sudo/copyright:License: ISC\n/usr/share/doc/vim/copyright:License: Vim\n",
}


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Guest:
    def ssh(_: Guest, *command: str, **_options: object) -> Result:
        return Result(command, 0, ANSWERS[command], "", 0.0)

    monkeypatch.setattr(Guest, "ssh", ssh)
    return Guest(Path(), Path(), Path(), 1.0)


def test_what_was_removed_and_left_its_configuration_is_not_in_it(guest: Guest) -> None:
    found = take(guest)
    assert list(found.packages.items()) == [("adduser", "3"), ("libstdc++6", "14.2"), ("sudo", "1.9")]
    assert found.architectures == {"adduser": "all", "libstdc++6": "amd64", "sudo": "amd64"}
    assert found.licences == {"sudo": ["ISC"]}
    assert found.distribution == {"id": "debian", "version": "13"}


def test_source_is_told_where_it_is_another_name_and_size_where_it_is_known(guest: Guest) -> None:
    found = take(guest)
    assert found.sources == {"libstdc++6": {"name": "gcc-14", "version": "14.2"}}
    assert found.installed_kib == {"libstdc++6": 2700, "sudo": 6000}


def test_question_is_what_dpkg_answers_to() -> None:
    """The same line, asked of this machine, has as many fields; the shell in between takes the quotes away."""
    need_programs("dpkg-query")
    lines = run(["sh", "-c", " ".join((*PACKAGES, "dpkg"))], timeout=30).stdout.splitlines()
    assert [len(line.split("\t")) for line in lines] == [len(FIELDS)]
    assert lines[0].startswith("installed\tdpkg\t")


def test_distribution_is_read_with_and_without_quotes() -> None:
    assert distribution(["ID=ubuntu", 'VERSION_ID="24.04"', ""]) == {"id": "ubuntu", "version": "24.04"}
    assert distribution(["ID=debian", "VERSION_CODENAME=forky"]) == {"id": "debian", "version": "forky"}


def test_licences_are_told_once_and_sorted() -> None:
    lines = [f"/usr/share/doc/{line}" for line in ("a/copyright:License:  MIT", "a/copyright:License: \tGPL-2+  or  X")]
    lines += ["/usr/share/doc/a/copyright:License: MIT", "/usr/share/doc/b/copyright:License:  "]
    assert licences(lines) == {"a": ["GPL-2+ or X", "MIT"]}
