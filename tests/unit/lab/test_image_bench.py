"""The bench of images builds in a copy, with one role changed for its digest alone; the checkout stays as it is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.errors import BuildError, ConfigError
from deskyard.host.places import places, tree
from deskyard.lab import image_bench
from deskyard.lab.image_bench import measure
from deskyard.plan.image.lineage import read_lineage

SECONDS = {"clean": 800.0, "nothing changed": 2.0}
CHANGED = 160.0


class Builds:
    """Stands for `image.build`: notes what would be built, and leaves a manifest."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, str]] = []
        self.homes: set[str] = set()

    def __call__(self, copy: Path, environment: dict[str, str], name: str, what: str) -> float:
        self.inputs.append(read_lineage(copy, name).inputs)
        self.homes |= {environment[f"XDG_{kind}_HOME"] for kind in ("CACHE", "DATA", "STATE")}
        folder = Path(environment["XDG_DATA_HOME"]) / "deskyard/images" / name / str(len(self.inputs))
        folder.mkdir(parents=True)
        manifest = {"built_at": what, "size_bytes": 2**30, "boot_seconds": 80.0, "boot": {"total_seconds": 60.0}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return SECONDS.get(what, CHANGED)


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Builds]:
    """Builds that take no time, in a home of their own."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    played = Builds()
    monkeypatch.setattr(image_bench, "_build", played)
    yield played
    assert not list((tmp_path / "home/cache").glob("bench-*"))


@pytest.mark.parametrize("name", ["desktop", "agent"])
def test_one_role_is_changed_in_the_copy_and_nothing_in_the_checkout(builds: Builds, name: str) -> None:
    before = read_lineage(tree(), name).inputs
    measure(name)
    clean, changed, nothing = builds.inputs
    assert clean == before == read_lineage(tree(), name).inputs
    assert changed == nothing
    (different,) = [figure for figure in clean if clean[figure] != changed[figure]]
    assert different.endswith("tasks/main.yml")
    assert not {str(places().data.parent), str(Path.home())} & builds.homes


def test_figures_are_ratios_of_the_clean_build_beside_the_last_ones(builds: Builds) -> None:
    first = {figure.name: figure for figure in measure("desktop")}
    assert [figure.last for figure in first.values()] == [None] * len(first)
    (role,) = [figure for figure in first.values() if figure.name.startswith("role ")]
    assert (role.value, role.ratio) == (CHANGED, CHANGED / SECONDS["clean"])
    assert (first["compressed size"].value, first["compressed size"].unit) == (1.0, "GiB")
    second = measure("desktop")
    assert [figure.last for figure in second] == [figure.value for figure in first.values()]


def test_image_that_is_not_declared_is_refused_before_anything_is_built(builds: Builds) -> None:
    with pytest.raises(ConfigError):
        measure("no-such-image")
    assert builds.inputs == []


def test_build_that_fails_ends_the_bench_and_leaves_nothing(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(copy: Path, environment: dict[str, str], name: str, what: str) -> float:
        raise BuildError("image", name, "could not be built", "see above")

    monkeypatch.setattr(image_bench, "_build", fails)
    with pytest.raises(BuildError):
        measure("desktop")
    assert not (places().state / "bench").exists()
