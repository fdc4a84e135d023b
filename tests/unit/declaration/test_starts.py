"""What new desktops go on from is looked up where there is a template, and a hypervisor to ask."""

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from deskyard.declaration.declaration import Declared
from deskyard.image.store import store
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.first_boot import FirstBoot, desktop_first_boot
from deskyard.plan.warm import Start, Template
from deskyard.plan.workspace import plan_workspace
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.warm import templates


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Declared:
    """A workspace of two sizes on a hypervisor that answers."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    link = SimpleNamespace(getVersion=lambda: 7_002_022, getLibVersion=lambda: 9_000_000)
    monkeypatch.setattr(daemon, "answers", lambda: True)
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(link))
    monkeypatch.setattr(store, "require", lambda name: store.BuiltImage(name, "abc", tmp_path / "disk.qcow2", {}))
    monkeypatch.setattr(Declared, "management_key", lambda _: "ssh-ed25519 AAAA deskyard-local")
    values = {"name": "lab", "network": "10.80.7.0/24", "desktops": [{"name": "dev1"}, {"name": "dev2", "tier": "max"}]}
    workspace = Workspace.check(values, "test")
    return Declared(workspace, Site(), plan_workspace(workspace, Site(), "tcg"))


def keep(declared: Declared, desktop: str) -> Template:
    """The template that fits one of the desktops."""
    with daemon.connection() as link:
        machine = declared.plan.desktop(desktop).machine
        image = declared.image_sources()["desktop"]
        fit = templates.fit(link, image, machine, "tcg", _first_boot(declared, desktop))
    template = Template(f"template-of-{desktop}", fit, "2026-11-25T10:00:00+00:00", 1)
    templates.folder(template.name).mkdir(parents=True)
    templates.keep(template)
    return template


def _first_boot(declared: Declared, desktop: str) -> FirstBoot:
    return desktop_first_boot(declared.plan.desktop(desktop), "another key")


def test_desktop_starts_from_the_template_of_its_size_and_the_other_boots(declared: Declared) -> None:
    template = keep(declared, "dev1")
    starts = declared.starts()
    assert starts["dev1"] == Start(template.name)
    assert "vcpus" not in str(starts["dev2"].reason)
    assert "memory_mib 16384, its is 4096" in str(starts["dev2"].reason)
    assert declared.templates() == {"dev1": template.name}


def test_hypervisor_is_not_asked_where_no_template_is(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(daemon, "answers")
    assert (declared.starts(), declared.templates()) == ({}, {})


def test_nothing_goes_on_while_no_hypervisor_answers(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(declared, "dev1")
    monkeypatch.setattr(daemon, "answers", lambda: False)
    assert declared.starts() == {}
