"""What every guest does: grows its disk, answers the host, keeps root out."""

import re
from typing import Any

from testinfra.host import Host

LOGIN = re.compile(r"session-\w+\.scope ")


def test_cloud_init_finished_without_errors(host: Host) -> None:
    status = host.run("cloud-init status --wait --long")
    assert "status: done" in status.stdout, status.stdout
    assert "errors: []" in status.stdout, status.stdout


def test_no_unit_failed(host: Host) -> None:
    listed = host.check_output("systemctl list-units --state=failed --plain --no-legend")
    # The scope of a login fails if who logged in has left before a slow machine made it: it is no unit of the image.
    assert [line for line in listed.splitlines() if not LOGIN.match(line)] == []


def test_root_file_system_fills_the_disk(host: Host) -> None:
    disk = int(
        host.check_output(
            "lsblk --bytes --nodeps --noheadings --output SIZE $(findmnt -no SOURCE / | sed 's/[0-9]*$//')"
        )
    )
    root = int(host.check_output("findmnt --bytes --noheadings --output SIZE /"))
    assert root > 0.9 * disk


def test_guest_agent_runs(host: Host) -> None:
    assert host.service("qemu-guest-agent").is_running


def test_hostname_resolves(host: Host) -> None:
    assert host.run("getent hosts $(hostname)").rc == 0


def test_sshd_refuses_root_and_passwords(host: Host) -> None:
    settings = host.check_output("sshd -T").splitlines()
    assert "permitrootlogin no" in settings
    assert "passwordauthentication no" in settings
    assert "kbdinteractiveauthentication no" in settings


def test_only_the_management_user_has_keys(host: Host, defaults: dict[str, Any]) -> None:
    files = set(host.check_output("find /root /home -name authorized_keys -size +0").split())
    assert files - {"/root/.ssh/authorized_keys"} == {
        f"/home/{defaults['guest_base_management_user']}/.ssh/authorized_keys"
    }
    # cloud-init leaves root's visitors a key that only tells them whom to ask for.
    lines = host.run("cat /root/.ssh/authorized_keys").stdout.splitlines()
    assert all('command="echo' in line for line in lines)


def test_no_neighbour_is_asked_for_names(host: Host) -> None:
    listeners = host.check_output("ss --no-header --udp --listening --numeric")
    assert ":5355 " not in listeners, "LLMNR"
    assert ":5353 " not in listeners, "mDNS"


def test_nobody_has_a_password(host: Host) -> None:
    hashes = [line.split(":")[1] for line in host.file("/etc/shadow").content_string.splitlines()]
    assert all(value.startswith(("*", "!")) for value in hashes)


def test_slow_units_are_masked(host: Host, defaults: dict[str, Any]) -> None:
    units = defaults["guest_base_masked_units"]
    states = host.run("systemctl is-enabled " + " ".join(units)).stdout.split()
    assert states == ["masked"] * len(units)


def test_kernel_speaks_on_the_serial_console(host: Host) -> None:
    assert "console=ttyS0" in host.file("/proc/cmdline").content_string


def test_packages_come_from_no_day_that_is_over(host: Host) -> None:
    # An image may be built from such a day's; what is installed later is today's.
    assert host.run("grep --recursive --fixed-strings '://snapshot.' /etc/apt").stdout == ""
    assert host.run("grep --recursive --extended-regexp --quiet '^(deb |Types: deb)' /etc/apt").rc == 0
