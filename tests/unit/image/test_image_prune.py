"""Builds that newer ones took the place of go with their templates; that of the current sources never does."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invoke import Exit

from deskyard.errors import ConfigError
from deskyard.image.prune import prune
from deskyard.image.store import store
from deskyard.image.store.store import DISK, MANIFEST
from deskyard.plan.warm import Template
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.warm import templates
from deskyard.tasks import image as tasks
from tests.unit.image.test_image_warm import FIT


@pytest.fixture
def gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that the hypervisor was asked to remove; five builds of `desktop`, and one of a strange image."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    for number in range(5):
        built("desktop", f"{number}" * 16, f"2026-01-0{number + 1}")
    built("strange", "a" * 16, "2025-01-01")
    removed: list[str] = []
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(None))
    monkeypatch.setattr(templates, "remove", lambda _, name: removed.append(name))
    monkeypatch.setattr(
        templates, "all_templates", lambda: [Template(f"t{n}", replace(FIT, digest=f"{n}" * 16), "", 0) for n in (0, 4)]
    )
    monkeypatch.setattr(store, "digests", lambda _: ["1" * 16])
    monkeypatch.setattr(store, "find", lambda name: store.load(name, "1" * 16))
    return removed


def built(name: str, digest: str, day: str) -> None:
    folder = store.image_folder(name, digest)
    folder.mkdir(parents=True)
    (folder / DISK).write_bytes(b"disk" * 4096)
    (folder / MANIFEST).write_text(json.dumps({"built_at": day, "name": name, "digest": digest}))


def left(name: str) -> str:
    return "".join(build.digest[0] for build in store.all_built(name))


@pytest.mark.parametrize(("keep", "stays"), [(1, "1"), (2, "41"), (3, "431"), (9, "43210")])
def test_newest_builds_stay_and_that_of_the_current_sources_is_one_of_them(
    gone: list[str], keep: int, stays: str
) -> None:
    done = prune("desktop", keep, dry_run=False)
    assert left("desktop") == stays
    assert {build["digest"][0] for build in done.builds} == set("01234") - set(stays)
    assert all(build["bytes"] >= 16384 for build in done.builds)
    assert done.templates == gone == [f"t{n}" for n in (0, 4) if str(n) not in stays]


def test_dry_run_names_the_same_and_removes_nothing(gone: list[str]) -> None:
    coming = prune(None, 1, dry_run=True)
    assert (gone, left("desktop"), left("strange")) == ([], "43210", "a")
    assert prune(None, 1, dry_run=False) == coming
    assert (left("desktop"), left("strange")) == ("1", "a")


def test_template_whose_image_is_gone_already_goes_too(gone: list[str]) -> None:
    for file in store.image_folder("desktop", "4" * 16).iterdir():
        file.unlink()
    assert prune("desktop", 9, dry_run=False).templates == gone == ["t4"]


@pytest.mark.parametrize(("name", "keep", "field"), [("desktop", 0, "keep"), ("nobodys", 1, "image")])
def test_wrong_wish_is_refused_and_nothing_goes(gone: list[str], name: str, keep: int, field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        prune(name, keep, dry_run=False)
    assert refused.value.field == field
    assert (gone, left("desktop")) == ([], "43210")


def test_nothing_goes_that_nobody_confirmed(gone: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    task: Any = tasks.prune
    with pytest.raises(Exit):
        task.body(None, "desktop", keep=1)
    assert "was not confirmed" in capsys.readouterr().err
    assert left("desktop") == "43210"
    task.body(None, "desktop", keep=1, yes=True, json=True)
    assert [build["digest"][0] for build in json.loads(capsys.readouterr().out)["builds"]] == ["4", "3", "2", "0"]
    assert left("desktop") == "1"
