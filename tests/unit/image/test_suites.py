"""How a built disk is tested: with how much memory, and for how long."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.host.places import tree
from deskyard.host.progress import Timings
from deskyard.image.check import suites
from deskyard.model.tier import TIERS
from deskyard.plan.image.image import read_image
from deskyard.plan.workspace import Accelerator


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
@pytest.mark.parametrize(("name", "memory_mib"), [("desktop", 2048), ("agent", TIERS["free"].memory_mib)])
def test_image_is_tested_in_the_memory_and_time_of_its_kind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, accelerator: Accelerator, name: str, memory_mib: int
) -> None:
    seen: dict[str, Any] = {}

    @contextmanager
    def boot(*_: object, **options: object) -> Iterator[Any]:
        seen.update(options)
        yield SimpleNamespace(boot_seconds=1.0, ssh_config=tmp_path / "ssh_config")

    monkeypatch.setattr(suites, "boot_guest", boot)
    monkeypatch.setattr(suites, "_check_unbooted", lambda *_: ())
    monkeypatch.setattr(suites, "measure", lambda *_: None)
    monkeypatch.setattr(suites, "take", lambda _: None)
    monkeypatch.setattr(suites, "run", lambda _, **options: seen.update(options))
    suites.check_image(read_image(tree(), name), tmp_path / "disk.qcow2", accelerator, tmp_path, Timings())
    assert (seen["memory_mib"], seen["timeout"]) == (memory_mib, {"kvm": 1800, "tcg": 5400}[accelerator])
