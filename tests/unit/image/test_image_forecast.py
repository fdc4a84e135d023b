"""A forecast names what would make an image be built anew, and touches nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.image.base import base_disk
from deskyard.image.build.forecast import forecast
from deskyard.image.store.signature import secret_key_file
from deskyard.image.store.store import image_folder
from deskyard.plan.image.diff import InputChange
from deskyard.plan.image.image import base_image
from deskyard.plan.image.inputs import digest_of
from deskyard.plan.image.lineage import read_lineage

OTHER = "0 " + "0" * 64


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    return tmp_path / "home"


def now() -> dict[str, str]:
    return read_lineage(tree(), "desktop").inputs


def put(recorded: dict[str, str], *, built_at: str = "2026-01-01", **manifest: Any) -> str:
    """Keep a build that was made from `recorded`; its digest."""
    digest = digest_of("desktop", "bootstrap", recorded)
    folder = image_folder("desktop", digest)
    folder.mkdir(parents=True)
    (folder / "disk.qcow2").write_bytes(b"disk")
    content = {"built_at": built_at, "base": {"kind": "bootstrap"}, "inputs": recorded, **manifest}
    (folder / "manifest.json").write_text(json.dumps({key: value for key, value in content.items() if value}))
    return digest


def test_unchanged_image_is_not_rebuilt() -> None:
    digest = put(now())
    output = forecast("desktop")
    assert not output.rebuild
    assert output.compared_with == digest
    assert (output.changes, output.steps) == ((), ())


def test_forced_build_of_an_unchanged_image_is_told_as_such() -> None:
    put(now())
    output = forecast("desktop", force=True)
    assert output.rebuild
    assert "asked for" in output.reason
    assert output.changes == ()
    assert output.steps


def test_image_that_was_never_built_would_be() -> None:
    output = forecast("desktop")
    assert (output.rebuild, output.compared_with, output.changes) == (True, None, ())
    assert "never built" in output.reason


def test_every_input_that_differs_is_named_with_its_kind() -> None:
    recorded = now()
    del recorded["images/desktop/image.yaml"]
    recorded["ansible/roles/gone/tasks/main.yml"] = OTHER
    recorded["ansible/image.yml"] = OTHER
    mode, checksum = recorded["images/desktop/build-ttyd.sh"].split()
    recorded["images/desktop/build-ttyd.sh"] = f"{'0' if mode == '111' else '111'} {checksum}"
    digest = put(recorded)
    output = forecast("desktop")
    assert output.compared_with == digest
    assert output.reason.startswith("4 of ")
    assert output.changes == (
        InputChange("changed", "mechanism", "ansible/image.yml"),
        InputChange("removed", "role gone", "ansible/roles/gone/tasks/main.yml"),
        InputChange("permission", "declaration", "images/desktop/build-ttyd.sh"),
        InputChange("added", "declaration", "images/desktop/image.yaml"),
    )


def test_comparison_is_with_the_newest_build() -> None:
    put({**now(), "ansible/image.yml": OTHER, "old": OTHER}, built_at="2026-01-01")
    newer = put({**now(), "new": OTHER}, built_at="2026-02-01")
    output = forecast("desktop")
    assert output.compared_with == newer
    assert [change.path for change in output.changes] == ["new"]


def test_older_build_of_these_sources_is_found_beside_a_newer_one_of_others() -> None:
    digest = put(now(), built_at="2026-01-01")
    put({**now(), "new": OTHER}, built_at="2026-02-01")
    assert forecast("desktop").compared_with == digest


def test_build_without_recorded_inputs_says_so() -> None:
    put({**now(), "ansible/image.yml": OTHER}, inputs=None)
    output = forecast("desktop")
    assert output.rebuild
    assert "before inputs were recorded" in output.reason
    assert output.changes == ()


def test_other_base_disk_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    put(now())
    monkeypatch.setenv("DESKYARD_BASE", "vendor")
    output = forecast("desktop")
    assert output.rebuild
    assert "asks for the base disk vendor" in output.reason
    assert output.changes == ()


def test_forecast_touches_neither_disk_nor_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESKYARD_BASE")
    monkeypatch.setattr(base_disk, "is_reachable", lambda _: pytest.fail("asked the network"))
    assert forecast("desktop").rebuild
    assert not home.exists()


def test_steps_name_what_the_declaration_asks_for() -> None:
    image = base_image(tree(), "desktop")
    output = " ".join(forecast("desktop").steps)
    for word in (*image.roles, *(artifact.name for artifact in image.artifacts), "bootstrap the base disk"):
        assert word in output
    assert str(image_folder("desktop", digest_of("desktop", "bootstrap", now()))) in output
    assert str(secret_key_file()) in output
    assert "gateway's bundle" not in output
    assert "gateway's bundle" in " ".join(forecast("gateway").steps)


def test_unknown_image_is_refused() -> None:
    with pytest.raises(ConfigError, match="not declared"):
        forecast("absent")
