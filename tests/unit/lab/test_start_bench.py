"""The arithmetic of `bench.life`, and that it makes nothing where an image is missing."""

import contextlib
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.errors import ConfigError, SiteError
from deskyard.lab import start_bench
from deskyard.lab.quantile import quantile, table
from deskyard.lab.start_bench import BARE, CLAIM, COLD, FRAME, IDENTITY, ROUTES, WARM, rows
from deskyard.life.pool import filling, pool
from deskyard.model.workspace import Workspace
from deskyard.site.libvirt import daemon
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness
from tests.support.inv import inv

UUID = uuid.UUID("0f3c1e52-8a47-4c1b-9d0e-2b6a5f7c8d91")


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [
        ([3.0], 0.95, 3.0),
        ([1.0, 2.0], 0.5, 1.0),
        ([5.0, 1.0, 3.0], 0.5, 3.0),
        (list(range(1, 21)), 0.95, 19),
        (list(range(1, 101)), 0.95, 95),
        ([1.0, 9.0], 0.95, 9.0),
    ],
)
def test_quantile_is_a_value_that_was_measured(values: list[float], share: float, found: float) -> None:
    assert quantile(values, share) == found


def measured(cold: float, quick: float, claim: float, came: int) -> dict[str, Any]:
    waits = {
        BARE: [20.0],
        f"{COLD} -> {FRAME}": [cold] * 3,
        f"{WARM} -> {FRAME}": [quick] * 3,
        CLAIM: [claim / 2, claim],
    }
    return {row.name: row for row in rows(waits, 8, came, [300, 500, 400])}


def test_waits_are_ratios_of_the_bare_boot_of_the_same_run() -> None:
    found = measured(200.0, 8.0, 0.4, 8)
    assert (found[f"{COLD} -> {FRAME}"].ratio, found[f"{WARM} -> {FRAME}"].ratio) == (10.0, 0.4)
    assert (found[CLAIM].p50, found[CLAIM].most, found[CLAIM].count) == (0.2, 0.4, 2)
    memory = found["memory of a desktop that idles, MiB"]
    assert (memory.p50, memory.most) == (400, 500)


@pytest.mark.parametrize(
    ("cold", "quick", "claim", "came", "met"),
    [(200.0, 8.0, 1.0, 8, True), (199.0, 8.0, 1.1, 7, False)],
)
def test_aims_are_told_met_or_not(cold: float, quick: float, claim: float, came: int, met: bool) -> None:
    found = measured(cold, quick, claim, came)
    assert [row.met for row in found.values() if row.aim] == [met] * 3
    assert table(list(found.values())).count("NOT met") == (0 if met else 3)


def test_claim_is_measured_to_its_routes_its_screen_and_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    seat, happened = SimpleNamespace(name="s1"), list[str]()

    def fail(*_: Any) -> dict[str, float]:
        raise SiteError("screen", None, "no frame", "look")

    declared: Any = SimpleNamespace(plan=SimpleNamespace(seat=lambda _: seat))
    monkeypatch.setattr(filling, "fill", lambda _: happened.append("fill"))
    monkeypatch.setattr(pool, "claim", lambda *_: {"name": "s1", "target": "bench/s1"})
    monkeypatch.setattr(pool, "release", happened.append)
    monkeypatch.setattr(readiness, "wait", lambda _, desktops: happened.append(desktops[0].name))
    monkeypatch.setattr(start_bench, "_seen", lambda *_: {FRAME: 5.0, IDENTITY: 6.0})
    claimed, waited = start_bench._claim(declared)
    assert happened == ["fill", "s1", "bench/s1"]
    assert 0 <= claimed <= waited.pop(ROUTES)
    assert waited == {FRAME: 5.0, IDENTITY: 6.0}
    # What fails leaves no desktop claimed.
    monkeypatch.setattr(start_bench, "_seen", fail)
    with pytest.raises(SiteError):
        start_bench._claim(declared)
    assert happened[-1] == "bench/s1" and len(happened) == 6


@pytest.mark.parametrize("answer", [UUID.hex, "ab" * 16, ""])
def test_desktop_counts_as_itself_once_its_machine_id_is_its_machines(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    # No screen of this image is waited for.
    monkeypatch.setattr(start_bench, "read_image", lambda *_: None)
    monkeypatch.setattr(start_bench, "wallpaper", lambda *_: None)
    monkeypatch.setattr(SshLink, "run", lambda *_, **__: SimpleNamespace(stdout=f"{answer}\n"))
    machine = SimpleNamespace(UUIDString=lambda: str(UUID))
    monkeypatch.setattr(daemon, "machine", lambda _: contextlib.nullcontext(machine))
    names = SimpleNamespace(name="bench")
    declared: Any = SimpleNamespace(site=names, workspace=names)
    seat: Any = SimpleNamespace(name="s1", machine=SimpleNamespace(image="desktop", domain="deskyard-bench.s1.task"))
    if answer == UUID.hex:
        assert list(start_bench._seen(declared, seat, 0.0)) == [IDENTITY]
        return
    with pytest.raises(SiteError, match=f"machine-id is '{answer}', and its machine's is {UUID.hex}"):
        start_bench._seen(declared, seat, 0.0)


def test_claim_alone_is_judged_and_what_follows_it_is_not() -> None:
    waits = {BARE: [20.0], CLAIM: [0.5], f"{CLAIM} -> {ROUTES}": [4.0], f"{CLAIM} -> {FRAME}": [9.0]}
    found = {row.name: row for row in rows(waits, 8, 8, [])}
    assert (found[CLAIM].met, found[f"{CLAIM} -> {FRAME}"].aim, found[f"{CLAIM} -> {ROUTES}"].ratio) == (True, "", 0.2)


def test_nothing_is_made_where_an_image_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    for name in ("bare_boot", "own_stacks"):
        monkeypatch.setattr(start_bench, name, lambda *_: pytest.fail("something was begun"))
    with pytest.raises(ConfigError, match="image"):
        start_bench.measure(1, 1)


def test_declaration_of_its_own_workspace_is_one() -> None:
    import yaml

    written = yaml.safe_load(start_bench._declaration(3))["config"]
    values = {key.removeprefix("deskyard:"): value for key, value in written.items()}
    found = Workspace.check({"name": "bench", **values}, "bench")
    assert len(found.desktops) == 3 and found.pool is not None


@pytest.mark.parametrize("option", ["rounds", "at-once"])
def test_number_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    output = inv(capsys, "bench.life", f"--{option}", "0", "--json")
    assert (output.code, output.document["error"]["field"]) == (1, option)
