"""The tasks of templates, as a person and a program read them."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from invoke import Context

from deskyard.image import warm
from deskyard.image.build import build
from deskyard.model.site import Site
from deskyard.plan.warm import Fit, Template
from deskyard.site.libvirt.warm import templates
from deskyard.tasks import image

FIT = Fit("desktop", "abc", 1, 4096, {"system": 20}, "tcg", "Nehalem", "7.2.22", "9.0.0", "1234")
TEMPLATE = Template("template-desktop-ab12", FIT, "2026-11-25T10:00:00+00:00", 150 << 20)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What was made: image, site, tier."""
    found: list[tuple[str, str, str]] = []

    def make(name: str, site: Site, tier: str) -> Template:
        found.append((name, site.name, tier))
        return TEMPLATE

    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    monkeypatch.setattr(warm, "make", make)
    return found


def test_template_is_made_for_a_tier_and_told_in_a_line(
    made: list[tuple[str, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    image.warm(Context(), "desktop", tier="pro")
    assert made == [("desktop", "local", "pro")]
    out = capsys.readouterr().out
    assert out.startswith("template-desktop-ab12  desktop@abc  1 vCPU, 4096 MiB, 150 MiB kept, QEMU 7.2.22 tcg")
    image.warm(Context(), "desktop", json=True)
    assert json.loads(capsys.readouterr().out)["fit"]["memory_mib"] == 4096


@pytest.mark.parametrize("asked", [True, False])
def test_build_makes_the_template_only_if_asked(
    made: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    built = SimpleNamespace(manifest={}, disk=Path("/disk.qcow2"))
    monkeypatch.setattr(build, "build", lambda *_, **__: built)
    image.build(Context(), "desktop", warm=asked)
    assert made == ([("desktop", "local", "free")] if asked else [])


def test_templates_are_counted_and_can_be_removed(
    made: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    templates.folder(TEMPLATE.name).mkdir(parents=True)
    templates.keep(TEMPLATE)
    image.list_(Context(), json=True)
    rows = {row["name"]: row["templates"] for row in json.loads(capsys.readouterr().out)}
    assert [row["name"] for row in rows["desktop"]] == [TEMPLATE.name]
    assert rows["gateway"] == []
    monkeypatch.setattr(warm, "remove", lambda name: warm.listed(name))
    for name, said in (("desktop", f"removed {TEMPLATE.name}\n"), ("agent", "nothing to remove\n")):
        image.warm(Context(), name, remove=True)
        assert capsys.readouterr().out == said
    assert made == []
