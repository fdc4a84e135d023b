"""What is made of a desktop's answers: a desktop may say what it likes."""

import hashlib
import hmac
import json
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.desktop import key_delivery, keys, program
from deskyard.engine import running, stack_secrets
from deskyard.errors import ConfigError, SiteError
from deskyard.host.command import Result
from deskyard.site import ssh_link
from deskyard.site.ssh_link import SshLink

CANARY = "canary-6b21-key"
STACK = """config:
  deskyard:network: 10.80.1.0/24
  deskyard:keys:
    anthropic: {secure: "v1:a:b"}
  deskyard:desktops:
    - name: dev1
      keys: [anthropic]
    - name: dev2
"""


@pytest.fixture(autouse=True)
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    monkeypatch.setattr(stack_secrets, "read_keys", lambda stack, names: {name: CANARY for name in names})
    monkeypatch.setattr(running, "require_running", lambda plan: None)
    monkeypatch.setattr(program, "REACH_SECONDS", 0.0)
    (tmp_path / "Pulumi.lab.yaml").write_text(STACK)
    return tmp_path


def answering(monkeypatch: pytest.MonkeyPatch, stdout: str, code: int = 0, stderr: str = "") -> list[tuple[Any, str]]:
    """Let every desktop answer so; what it was asked."""
    asked: list[tuple[Any, str]] = []

    def run(self: SshLink, host: str, remote: list[str], *, stdin: str, **_: Any) -> Result:
        length = int(remote[-1])
        assert CANARY not in " ".join(remote)
        asked.append((host, stdin[length:]))
        return Result(tuple(remote), code, stdout, stderr, 0.0)

    monkeypatch.setattr(SshLink, "run", run)
    return asked


def test_what_a_desktop_is_asked_for_a_listing_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, '{"exists": false, "guarded": false, "lines": []}')
    found = keys.listing("lab/dev1")
    assert [(row["name"], row["state"]) for row in found["keys"]] == [("anthropic", "missing")]
    assert CANARY not in asked[0][1] + str(found)
    assert keys.listing("lab/dev2")["keys"] == [] and keys.listing("lab/dev2")["in_step"]


@pytest.mark.parametrize(
    "answer",
    ["", "[]", '"x"', "null", '{"error": 1}', '{"lines": 1}', "[" * 100_000],
    ids=lambda text: text[:9] or "nothing",
)
def test_a_senseless_answer_is_an_error_or_nothing(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    answering(monkeypatch, answer)
    try:
        assert not keys.listing("lab/dev1")["in_step"]
    except SiteError as error:
        assert error.value == "lab/dev1"
    with pytest.raises(SiteError):
        key_delivery.deliver(declaration.read("lab").plan, {"dev1": {"anthropic": CANARY}})


def test_names_that_a_desktop_makes_up_are_bounded_and_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [["\x1b[2J", "0"], ["OK_API_KEY", "0"], ["A" * 99, "0"], 7, ["X"], *([f"N{n}", "0"] for n in range(999))]
    answering(monkeypatch, json.dumps({"exists": True, "guarded": True, "lines": lines}))
    rows = keys.listing("lab/dev2")["keys"]
    assert rows[0] == {"name": "ok", "variable": "OK_API_KEY", "fingerprint": None, "state": "left over"}
    assert len(rows) <= keys.MAX_LINES
    assert all(row["variable"].isalnum() or row["variable"] == "OK_API_KEY" for row in rows)


@pytest.mark.parametrize("place", ["stdout", "stderr", "ssh", "a piece"])
def test_a_key_that_a_desktop_sends_back_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    output = f"\x1b[2Jgot {CANARY}"
    if place == "stdout":
        answering(monkeypatch, json.dumps({"error": output}))
    elif place == "ssh":
        # What ssh says of itself ends with this code, and what a desktop says may, too.
        monkeypatch.setattr(ssh_link, "run", lambda argv, **_: Result(tuple(argv), 255, "", output, 0.0))
    else:
        answering(monkeypatch, "", code=1, stderr=output if place == "stderr" else output[:-3])
    with pytest.raises(SiteError) as caught:
        key_delivery.deliver(declaration.read("lab").plan, {"dev1": {"anthropic": CANARY}})
    shown = f"{caught.value}{caught.value!r}{capsys.readouterr()}"
    assert "must not be shown" in shown and CANARY[:-3] not in shown and "\x1b" not in shown


def test_a_failure_is_raised_after_all_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, '{"error": "no room"}')
    with pytest.raises(SiteError, match="no room"):
        key_delivery.deliver(declaration.read("lab").plan, {"dev1": {"anthropic": CANARY}, "dev2": {}})
    assert {host for host, _ in asked} == {"dev1", "dev2"}
    sent = {host: CANARY in stdin for host, stdin in asked}
    assert sent == {"dev1": True, "dev2": False}


def test_desktops_are_asked_where_keys_are_declared_or_were_given(
    monkeypatch: pytest.MonkeyPatch, stacks: Path
) -> None:
    stack: Any = SimpleNamespace(name="lab")
    assert key_delivery.wanted(declaration.read("lab"), stack) == {"dev1": {"anthropic": CANARY}, "dev2": {}}
    without = STACK.replace('    anthropic: {secure: "v1:a:b"}\n', "").replace("      keys: [anthropic]\n", "")
    (stacks / "Pulumi.lab.yaml").write_text(without.replace("keys:\n", "keys: {}\n"))
    assert key_delivery.wanted(declaration.read("lab"), stack) == {"dev1": {}, "dev2": {}}
    (stacks / "Pulumi.lab.yaml").write_text(without.replace("  deskyard:keys:\n", ""))
    assert key_delivery.wanted(declaration.read("lab"), stack) is None

    answering(monkeypatch, '{"done": "changed"}')
    key_delivery.deliver(declaration.read("lab").plan, {"dev1": {"anthropic": CANARY}})
    assert key_delivery.wanted(declaration.read("lab"), stack) == {"dev1": {}, "dev2": {}}
    answering(monkeypatch, '{"done": "removed"}')
    key_delivery.deliver(declaration.read("lab").plan, {"dev1": {}, "dev2": {}})
    assert key_delivery.wanted(declaration.read("lab"), stack) is None


def test_fingerprints_need_the_sites_own_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fingerprint = keys._fingerprint("local", "anthropic", "1234")
    assert len(fingerprint) == 12 and fingerprint == keys._fingerprint("local", "anthropic", "1234")
    assert fingerprint not in (
        keys._fingerprint("local", "openai", "1234"),
        keys._fingerprint("rack", "anthropic", "1234"),
    )
    assert not hmac.new(b"", b"anthropic\0" + b"1234", hashlib.sha256).hexdigest().startswith(fingerprint)


@pytest.mark.parametrize("target", ["lab", "lab/", "lab/nobody"])
def test_a_wrong_desktop_is_named(target: str) -> None:
    with pytest.raises(ConfigError):
        keys.listing(target)


def test_a_name_that_may_be_the_key_itself_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        keys.set_key("lab", CANARY.upper(), "x")
    assert CANARY not in str(caught.value).lower()


@pytest.mark.usefixtures("ctrl_c")
def test_an_interruption_ends_the_delivery(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note = tmp_path / "started"
    monkeypatch.setattr(program, "REACH_SECONDS", 60.0)
    monkeypatch.setattr(SshLink, "command", lambda *_, **__: ["sh", "-c", f"echo $$ > {note}; exec sleep 60"])

    def interrupt() -> None:
        deadline = time.monotonic() + 30
        while not (note.exists() and note.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        key_delivery.deliver(declaration.read("lab").plan, {"dev1": {"anthropic": CANARY}})
    assert not Path(f"/proc/{note.read_text().strip()}").exists()
