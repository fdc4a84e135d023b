"""What the programs of templates take from a machine, and give it back, is what roles and the first boot make."""

import pytest

from deskyard.guest.identity.from_template import LATER
from deskyard.host.places import tree
from deskyard.model.tier import TIERS
from deskyard.plan.first_boot import desktop_first_boot
from deskyard.plan.warm import MAC, template_desktop
from deskyard.site.libvirt.warm.guest import programs

PREPARE, FORGET, IDENTITY = programs()
ROLES = tree() / "ansible" / "roles"


@pytest.mark.parametrize(
    ("word", "source"),
    [
        ("/etc/deskyard/agent-openclaw.env", "agent_openclaw/files/agent-openclaw-secret"),
        ("agent-openclaw-secret.service", "agent_openclaw/templates/agent-openclaw.service.j2"),
        (".deskyard/identity", "home_volume/files/home-volume.sh"),
        ("/var/lib/deskyard/home-volume", "home_volume/files/home-volume.sh"),
        ("/var/lib/systemd/random-seed", "image_hygiene/files/clean.sh"),
        ("/var/lib/systemd/credential.secret", "image_hygiene/files/clean.sh"),
        (": >/etc/machine-id", "image_hygiene/files/clean.sh"),
        ("/etc/ssh/ssh_host_*", "image_hygiene/files/clean.sh"),
    ],
)
def test_template_is_without_what_a_role_makes_for_one_machine_alone(word: str, source: str) -> None:
    assert word in PREPARE
    assert word in (ROLES / source).read_text()


def test_nothing_of_a_template_is_open_to_anybody() -> None:
    # It has no NIC, and starts what waits for one alone.
    started = [line for line in PREPARE.splitlines() if "systemctl start" in line]
    assert started == ["systemctl start systemd-networkd.service"]


def test_who_comes_in_by_ssh_is_let_in_once_the_routes_answer() -> None:
    # Waited for, with a key of its own, and before the machine gets its NIC: that is when the program has ended.
    done = IDENTITY[IDENTITY.index("def main()") :]
    steps = ('finish(key, "ssh-keygen")', 'ssh = start("/usr/bin/systemctl"', 'finish(ssh, "systemctl")', "LATER")
    assert [done.index(step) for step in steps] == sorted(done.index(step) for step in steps)
    assert "systemd-networkd-wait-online" in LATER


def test_no_key_is_made_before_the_kernel_has_drawn_new_random_numbers() -> None:
    done = IDENTITY[IDENTITY.index("def main()") :]
    assert done.index("draw_random_numbers(") < done.index("ssh-keygen") < done.index("/proc/sys/kernel/random/uuid")


def test_values_come_by_standard_input_alone() -> None:
    assert ". /dev/stdin" in PREPARE and "$1" not in PREPARE
    for program in (FORGET, IDENTITY):
        assert "sys.stdin" in program and "sys.argv" not in program


def test_template_knows_the_network_by_a_mac_that_no_machine_has() -> None:
    desktop = template_desktop("desktop", "free", TIERS["free"], "tcg")
    nic = desktop_first_boot(desktop, "").network_config["ethernets"]["workspace"]
    assert nic["match"]["macaddress"] == MAC
