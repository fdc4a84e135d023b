"""How a new desktop starts is said before it does, and again if it did otherwise; templates are made only if asked."""

from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.engine.backend import backend_of
from deskyard.engine.change import Watcher
from deskyard.errors import HostError
from deskyard.image import warm
from deskyard.model.site import Site
from deskyard.plan.warm import Start, Templates
from tests.desktop.lab import planned
from tests.support import paper_cluster

URN = "urn:pulumi:lab::deskyard::deskyard:workspace:Workspace$deskyard:workspace:Desktop$deskyard:libvirt:Domain::"


class Declared:
    """A declaration whose desktops start as it is told."""

    site = Site()

    def __init__(self, **starts: Start) -> None:
        self._starts = starts

    def starts(self) -> dict[str, Start]:
        return self._starts


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The templates that are made, by image and tier."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(warm, "make", lambda image, _, tier: found.append((image, tier)))
    return found


@pytest.mark.parametrize("make", list(Templates))
def test_templates_are_made_once_for_each_size_and_only_if_wanted(made: list[tuple[str, str]], make: Templates) -> None:
    new = [*planned("dev1").desktops, *planned("dev1").desktops]
    declared: Any = Declared()
    backend_of(Site()).prepare_starts(declared, new, make=make)
    assert made == ([] if make is Templates.KEPT else [("desktop", "free")])


def test_template_that_cannot_be_made_stops_those_who_asked_for_it_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise HostError("memory", None, "512 MiB are available", "stop other machines")

    monkeypatch.setattr(warm, "make", refuse)
    declared: Any = Declared()
    (desktop, *_) = new = planned("dev1").desktops
    with pytest.raises(HostError, match="512 MiB"):
        backend_of(Site()).prepare_starts(declared, new, make=Templates.ASKED)
    backend_of(Site()).prepare_starts(declared, new, make=Templates.TRIED)
    said = capsys.readouterr().err
    assert "no template of image desktop for tier free: 512 MiB are available\n" in said
    assert f"{desktop.name} boots: " in said


def test_each_new_desktop_is_said_to_go_on_or_to_boot_and_why(
    made: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (desktop, *_) = planned("dev1").desktops
    for start, said in (
        (Start("template-x"), "goes on from template-x"),
        (Start(None, "it does not fit: qemu 8"), "boots: it does not fit: qemu 8"),
        (None, "boots: no template of image desktop is there (./inv image.warm desktop)"),
    ):
        declared: Any = Declared(**({desktop.name: start} if start else {}))
        backend_of(Site()).prepare_starts(declared, [desktop], make=Templates.KEPT)
        assert f"{desktop.name} {said}\n" in capsys.readouterr().err


@pytest.mark.parametrize("make", list(Templates))
def test_cluster_says_that_its_desktops_boot(make: Templates, capsys: pytest.CaptureFixture[str]) -> None:
    declared: Any = None
    backend_of(paper_cluster.rack()).prepare_starts(declared, [], make=make)
    assert ("desktops of a cluster boot" in capsys.readouterr().err) is (make is Templates.ASKED)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("went on from t", ["    dev1 went on from t"]),
        ("boots, since x", ["    dev1 boots, since x"]),
        ("boots", []),
        (None, []),
    ],
)
def test_what_the_provider_says_of_a_start_reaches_the_user(how: str | None, said: list[str]) -> None:
    lines: list[str] = []
    new = SimpleNamespace(outputs={"started": how} if how else None)
    metadata = SimpleNamespace(op="create", urn=f"{URN}lab-desktop-dev1-machine", new=new)
    event: Any = SimpleNamespace(
        diagnostic_event=None, resource_pre_event=None, res_outputs_event=SimpleNamespace(metadata=metadata)
    )
    Watcher(report=lines.append)(event)
    assert lines == said
