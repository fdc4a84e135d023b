"""How the power of a machine is read from what a cluster answers, and what is asked of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.life.power import WRITES, MachinePower, state_of
from deskyard.site.proxmox.token import VARIABLE
from tests.unit.site.stub import TOKEN, Reply, Stub, serving

CONFIG = {"tags": "deskyard;deskyard.rack.lab.dev1;theirs", "onboot": 1, "digest": "aa"}
CHANGED = Reply(status=500, reason="checksum mismatch (file change by other user?)")


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)


def wanting(folder: Path, power: Power, *script: Reply) -> tuple[Callable[[], bool], Stub]:
    """What wants it of a cluster that answers so, and the cluster."""
    with serving(folder, *script) as stub:
        outcome: Any
        try:
            outcome = MachinePower(connect(stub.site()), "pve1", 100).want(power)
        except SiteError as error:
            outcome = error
    return lambda: _outcome(outcome), stub


def _outcome(outcome: Any) -> bool:
    if isinstance(outcome, SiteError):
        raise outcome
    return bool(outcome)


def written(stub: Stub) -> list[dict[str, str]]:
    """What was asked for in each write."""
    pairs = zip(stub.calls, stub.bodies, strict=True)
    asked = [parse_qs(body.decode(), keep_blank_values=True) for (method, _), body in pairs if method == "PUT"]
    return [{name: value[0] for name, value in row.items()} for row in asked]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"status": "running", "qmpstatus": "running"}, "running"),
        ({"status": "running"}, "running"),
        ({"status": "running", "qmpstatus": "running", "lock": "backup"}, "running"),
        ({"status": "running", "qmpstatus": "paused"}, "paused"),
        ({"status": "running", "qmpstatus": "prelaunch"}, "paused"),
        ({"status": "running", "qmpstatus": "prelaunch", "lock": "backup"}, "stopped"),
        ({"status": "running", "qmpstatus": "paused", "lock": "backup"}, "paused"),
        ({"status": "running", "qmpstatus": "suspended"}, "paused"),
        ({"status": "running", "qmpstatus": "paused", "lock": "suspending"}, "paused"),
        ({"status": "running", "qmpstatus": "io-error"}, "io-error"),
        ({"status": "stopped", "qmpstatus": "stopped"}, "stopped"),
        ({"status": "stopped", "qmpstatus": "stopped", "lock": "suspended"}, "saved"),
        ({"status": "stopped", "qmpstatus": "stopped", "lock": "clone"}, "stopped"),
    ],
    ids=str,
)
def test_the_state_is_that_of_the_process_and_of_its_memory(status: dict[str, str], state: str) -> None:
    assert state_of(status) == state


@pytest.mark.parametrize(("power", "tag"), [(Power.OFF, "deskyard-power.off"), (Power.PAUSED, "deskyard-power.paused")])
def test_what_is_wanted_is_one_write_of_all_tags_with_the_digest_that_was_read(
    tmp_path: Path, power: Power, tag: str
) -> None:
    outcome, stub = wanting(tmp_path, power, Reply(data=CONFIG), Reply())
    assert outcome()
    tags = f"deskyard;{tag};deskyard.rack.lab.dev1;theirs"
    assert written(stub) == [{"tags": tags, "onboot": "0", "digest": "aa"}]


def test_what_is_so_already_is_not_written(tmp_path: Path) -> None:
    outcome, stub = wanting(tmp_path, Power.RUNNING, Reply(data=CONFIG))
    assert outcome()
    assert written(stub) == []


def test_a_machine_that_would_not_start_with_its_node_is_written_though_its_tags_say_so(tmp_path: Path) -> None:
    outcome, stub = wanting(tmp_path, Power.RUNNING, Reply(data={**CONFIG, "onboot": 0}), Reply())
    assert outcome()
    assert written(stub) == [{"tags": CONFIG["tags"], "onboot": "1", "digest": "aa"}]


def test_the_last_tag_is_deleted(tmp_path: Path) -> None:
    config = {"tags": "deskyard-power.off", "onboot": 0, "digest": "aa"}
    outcome, stub = wanting(tmp_path, Power.RUNNING, Reply(data=config), Reply())
    assert outcome()
    assert written(stub) == [{"delete": "tags", "onboot": "1", "digest": "aa"}]


def test_what_somebody_else_changed_is_read_again_and_written_on_top(tmp_path: Path) -> None:
    other = {**CONFIG, "tags": "deskyard;deskyard.rack.lab.dev1;new", "digest": "bb"}
    outcome, stub = wanting(tmp_path, Power.OFF, Reply(data=CONFIG), CHANGED, Reply(data=other), Reply())
    assert outcome()
    assert [body["digest"] for body in written(stub)] == ["aa", "bb"]
    assert written(stub)[-1]["tags"] == "deskyard;deskyard-power.off;deskyard.rack.lab.dev1;new"


def test_who_is_always_slower_gives_up(tmp_path: Path) -> None:
    outcome, stub = wanting(tmp_path, Power.OFF, *[Reply(data=CONFIG), CHANGED] * WRITES)
    with pytest.raises(SiteError, match=f"changed its configuration {WRITES} times"):
        outcome()
    assert len(written(stub)) == WRITES


@pytest.mark.parametrize("lock", ["suspended", "suspending"])
def test_a_machine_whose_memory_is_on_disk_cannot_be_written(tmp_path: Path, lock: str) -> None:
    refusal = Reply(status=500, reason=f"VM is locked ({lock})")
    outcome, stub = wanting(tmp_path, Power.OFF, Reply(data=CONFIG), refusal)
    assert not outcome()
    assert len(written(stub)) == 1


def test_any_other_refusal_is_an_error(tmp_path: Path) -> None:
    refusal = Reply(status=403, reason="Permission check failed (/vms/100, VM.Config.Options)")
    outcome, _ = wanting(tmp_path, Power.OFF, Reply(data=CONFIG), refusal)
    with pytest.raises(SiteError, match=r"VM\.Config\.Options"):
        outcome()
