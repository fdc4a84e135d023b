"""Which template a new desktop goes on from, why it boots, and what makes it itself."""

import json
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from deskyard.model.site import Site
from deskyard.model.tier import TIERS
from deskyard.model.workspace import Workspace
from deskyard.plan import warm
from deskyard.plan.first_boot import FirstBoot, desktop_first_boot
from deskyard.plan.warm import Fit, Template
from deskyard.plan.workspace import plan_workspace

KEY = "ssh-ed25519 AAAAKEY deskyard-local"
FIT = Fit("desktop", "abc", 1, 4096, {"system": 20}, "tcg", "Nehalem", "7.2.22", "9.0.0", "1234")
OTHERS: dict[str, Any] = {
    "digest": "def",
    "vcpus": 2,
    "memory_mib": 8192,
    "disks": {"system": 20, "home": 10},
    "accelerator": "kvm",
    "cpu": "Skylake 0123",
    "qemu": "8.0.0",
    "libvirt": "10.0.0",
    "recipe": "5678",
}


def template(name: str, fit: Fit = FIT, made_at: str = "2026-11-25T10:00:00+00:00") -> Template:
    return Template(name, fit, made_at, 1)


def first_boot(name: str) -> FirstBoot:
    """What a desktop of a workspace reads at its first boot."""
    declared = Workspace.check({"name": "lab", "network": "10.80.7.0/24", "desktops": [{"name": name}]}, "test")
    return desktop_first_boot(plan_workspace(declared, Site(), "tcg").desktop(name), KEY)


def test_machine_goes_on_from_the_newest_template_that_fits() -> None:
    later = template("later", made_at="2026-11-26T10:00:00+00:00")
    other = template("other", replace(FIT, memory_mib=8192), "2026-11-27T10:00:00+00:00")
    assert warm.start(FIT, [template("first"), later, other]) == warm.Start("later")


@pytest.mark.parametrize("field", OTHERS)
def test_template_that_differs_in_anything_does_not_fit_and_the_reason_says_in_what(field: str) -> None:
    found = warm.start(FIT, [template("first", replace(FIT, **{field: OTHERS[field]}))])
    assert found.template is None
    assert found.reason is not None
    assert "first does not fit: " in found.reason
    assert found.reason.count(", its is ") == 1


def test_reason_is_that_of_the_nearest_template() -> None:
    far = template("far", replace(FIT, memory_mib=8192, digest="def"))
    near = template("near", replace(FIT, qemu="8.0.0"))
    assert warm.start(FIT, [far, near]).reason == "template near does not fit: qemu 7.2.22, its is 8.0.0"


def test_machine_without_a_template_of_its_image_boots() -> None:
    other = template("other", replace(FIT, image="agent"))
    for kept in ([], [other]):
        found = warm.start(FIT, kept)
        assert (found.template, "image.warm desktop" in str(found.reason)) == (None, True)


def test_template_is_of_no_name_open_to_nobody_and_without_a_network() -> None:
    own, its = first_boot("dev1"), warm.template_first_boot(first_boot("dev1"))
    assert its.network_config["ethernets"] == {}
    assert KEY not in json.dumps([its.user_data, its.meta_data])
    assert "dev1" not in json.dumps([its.user_data, its.meta_data])
    assert its.user_data["hostname"] == its.meta_data["instance-id"] == warm.HOSTNAME
    manager = {key: value for key, value in own.user_data["users"][0].items() if key != "ssh_authorized_keys"}
    assert its.user_data == {**own.user_data, "hostname": warm.HOSTNAME, "users": [manager]}


def test_templates_of_all_desktops_read_the_same() -> None:
    assert warm.template_first_boot(first_boot("dev1")) == warm.template_first_boot(first_boot("dev2"))
    desktop = warm.template_desktop("desktop", "free", TIERS["free"], "tcg")
    of_template = desktop_first_boot(desktop, "")
    assert warm.template_first_boot(of_template) == warm.template_first_boot(first_boot("dev1"))
    network = json.dumps(of_template.network_config)
    own = json.dumps(first_boot("dev1").network_config)
    mac = first_boot("dev1").network_config["ethernets"]["workspace"]["match"]["macaddress"]
    assert network.replace(warm.MAC, mac) == own


def test_identity_is_all_that_a_first_boot_tells_one_desktop_alone() -> None:
    own = warm.identity(first_boot("dev1"))
    assert own == {
        "hostname": "dev1",
        "instance": "deskyard-lab.dev1",
        "manager": "deskyard",
        "keys": [KEY],
        "nic": "workspace",
    }


def test_shell_reads_values_as_they_are() -> None:
    values = {"NAME": "a b", "KEYS": "one'two\nthree $HOME `id`"}
    script = warm.assignments(values) + 'printf "%s|%s" "$NAME" "$KEYS"'
    done = subprocess.run(["/bin/sh"], input=script, text=True, capture_output=True, check=True)
    assert done.stdout == "|".join(values.values())
