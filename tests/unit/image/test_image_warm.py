"""Templates of an image: what is refused, what is used again, and what a new one takes the place of."""

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.errors import ConfigError, HostError
from deskyard.image import warm
from deskyard.image.store import store
from deskyard.image.store.store import BuiltImage
from deskyard.model.site import Site
from deskyard.plan.warm import Fit, Template
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.warm import making, templates
from tests.support import paper_cluster

FIT = Fit("desktop", "abc", 1, 4096, {"system": 20}, "tcg", "Nehalem", "7.2.22", "9.0.0", "1234")


class Hypervisor:
    """Notes which templates were made and removed; those that are kept are real files."""

    def __init__(self) -> None:
        self.made: list[making.Wanted] = []
        self.removed: list[str] = []

    def make(self, _: Any, wanted: making.Wanted) -> Template:
        self.made.append(wanted)
        return keep("new")

    def remove(self, _: Any, name: str) -> None:
        self.removed.append(name)


def keep(name: str, fit: Fit = FIT) -> Template:
    """A template that is whole."""
    template = Template(name, fit, "2026-11-25T10:00:00+00:00", 1 << 20)
    templates.folder(name).mkdir(parents=True)
    templates.keep(template)
    return template


@pytest.fixture
def hypervisor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hypervisor:
    found = Hypervisor()
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    monkeypatch.setattr(daemon, "up", lambda _: None)
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(SimpleNamespace()))
    monkeypatch.setattr(templates, "fit", lambda *_: FIT)
    monkeypatch.setattr(templates, "remove", found.remove)
    monkeypatch.setattr(making, "make", found.make)
    monkeypatch.setattr(making, "clear_unfinished", lambda *_: None)
    monkeypatch.setattr(store, "require", lambda name: BuiltImage(name, "abc", tmp_path / "disk.qcow2", {}))
    monkeypatch.setattr(store, "load", lambda name, digest: None if digest == "gone" else object())
    return found


@pytest.mark.parametrize(
    ("image", "tier", "site", "reason"),
    [
        ("gateway", "free", Site(), "no image of desktops"),
        ("desktop", "none", Site(), "no tier of site local"),
        ("desktop", "free", paper_cluster.rack(), "another one's memory"),
    ],
)
def test_what_cannot_have_a_template_is_refused(
    hypervisor: Hypervisor, image: str, tier: str, site: Site, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        warm.make(image, site, tier)
    assert hypervisor.made == []


def test_template_that_fits_is_not_made_again(hypervisor: Hypervisor) -> None:
    kept = keep("kept")
    assert warm.make("desktop", Site(), "free") == kept
    assert hypervisor.made == []


def test_template_is_of_the_tiers_size_and_waits_for_a_drawn_desktop(hypervisor: Hypervisor) -> None:
    warm.make("desktop", Site(), "free")
    (wanted,) = hypervisor.made
    tier = Site().all_tiers()["free"]
    assert (wanted.machine.memory_mib, wanted.machine.disk_gib) == (tier.memory_mib, tier.disk_gib)
    assert wanted.drawn is not None
    assert wanted.drawn[0] == "python3"


def test_new_template_takes_the_place_of_those_of_its_size_and_of_images_that_are_gone(hypervisor: Hypervisor) -> None:
    keep("older", replace(FIT, digest="before"))
    keep("larger", replace(FIT, memory_mib=8192))
    keep("other", replace(FIT, image="agent"))
    keep("orphan", replace(FIT, image="agent", digest="gone"))
    warm.make("desktop", Site(), "free")
    assert sorted(hypervisor.removed) == ["older", "orphan"]


def test_template_for_which_there_is_no_memory_is_not_begun(
    hypervisor: Hypervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "available_memory_mib", lambda: 100)
    with pytest.raises(HostError, match="100 MiB are available"):
        warm.make("desktop", Site(), "free")
    assert hypervisor.made == []


def test_template_that_was_not_finished_is_none(hypervisor: Hypervisor) -> None:
    keep("whole")
    templates.folder("half").mkdir()
    (templates.folder("half") / templates.MEMORY).touch()
    assert [template.name for template in warm.listed()] == ["whole"]
    assert templates.find("half") is None
    (templates.folder("whole") / templates.RECORD).write_text("{}")
    assert warm.listed() == []
