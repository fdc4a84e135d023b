"""Another desktop is made of a backup: itself in everything by which machines are told apart; the first one stays."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from deskyard.declaration import declaration
from deskyard.desktop import customise_delivery, key_delivery, process_cap
from deskyard.engine.change import DESKTOP, GATEWAY, Change
from deskyard.errors import ConfigError, DeskyardError, HostError, SiteError
from deskyard.host.places import places
from deskyard.life.backup import copying, final, shown
from deskyard.life.backup.archived import InArchive
from deskyard.plan.backup import Backup, Disk
from deskyard.plan.names import machine_uuid
from deskyard.plan.power import Power
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import copies, turn, workspace
from tests.unit.life.desk import TARGET
from tests.unit.life.machines import DEV1, PLAN, Machines

TO, COPY = "lab/copy", "deskyard-lab.copy"
FIRST_ID = "f" * 32
OWN_ID = UUID(machine_uuid("local", "lab", "copy")).hex
FILE = """config:
  deskyard:network: 10.91.7.0/24
  deskyard:keys: {}
  deskyard:desktops:
    - {name: dev1, tier: pro, idle: never, host_number: 20, customise: {from: mine}}
    - name: dev2
"""


class Content:
    """The content of a desktop's disks: words, and the machine-id that its system has."""

    def __init__(self, text: str, machine_id: str) -> None:
        self.text, self.id, self.wrong, self.nonce_found = text, machine_id, list[str](), "n"

    def nonce(self) -> str:
        return self.nonce_found

    def faults(self) -> list[str]:
        return self.wrong

    def machine_id(self) -> str:
        return self.id


def a_step(component: str, name: str) -> dict[str, Any]:
    """A step of a preview, as its task prints it."""
    kind = "deskyard:libvirt:Domain"
    urn = f"urn:pulumi:lab::deskyard::deskyard:workspace:Workspace${component}${kind}::{name}"
    return asdict(Change("update", kind, name, urn))


@dataclass
class Laboratory:
    """Workspace `lab` with desktop dev1 and its backups, and what becomes of desktop copy: its vault and its engine.

    `fault` is asked before each step.
    """

    machines: Machines
    file: Path
    present: list[Backup]
    content: dict[str, Content]
    restored: Content = field(default_factory=lambda: Content("first", FIRST_ID))
    renewed: list[Mapping[str, str]] = field(default_factory=list)
    forgets: bool = False
    ups: list[str] = field(default_factory=list)
    delivered: list[Any] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    capped: list[Mapping[str, int | None]] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    fault: Callable[[str], None] = lambda _: None

    @property
    def begun(self) -> copies.Begun | None:
        return copies.read("local", "lab", "copy")

    def vault(self, _site: str, _workspace: str) -> Any:
        return SimpleNamespace(
            present=lambda _: self.present,
            require_copies=lambda *_: self.fault("room"),
            copied=self.copied,
        )

    @contextlib.contextmanager
    def copied(
        self, machine: Any, found: Backup, to: str, prove: Callable[[Any], None], identity: Mapping[str, str]
    ) -> Iterator[Callable[[Any], Any]]:
        assert (machine.name, to) == ("dev1", "copy")
        self.fault("renew")
        prove(self.restored)
        self.renewed.append(identity)
        own = FIRST_ID if self.forgets else identity["MACHINE_ID"]

        @contextlib.contextmanager
        def swap() -> Iterator[None]:
            assert self.machines.now[COPY] == "stopped"
            before, self.content[COPY] = self.content[COPY], Content(self.restored.text, own)
            try:
                yield
            except Exception:
                self.machines.now[COPY], self.content[COPY] = "stopped", before
                raise

        def into(_: Any) -> Any:
            self.fault("into")
            return SimpleNamespace(swap=swap, guest=lambda: contextlib.nullcontext(self.content[COPY]))

        yield into

    def up(self, name: str, *, on_turn: Callable[[], object], on_steps: Callable[[], object]) -> None:
        self.ups.append(name)
        self.fault("turn")
        on_turn()
        self.fault("up")
        on_steps()
        self.fault("steps")
        if COPY not in self.machines.now:
            for known, value in ((self.machines.now, "running"), (self.machines.keys, "a key")):
                known[COPY] = value
            self.machines.wanted[COPY] = Power.RUNNING
            self.content[COPY] = Content("empty", OWN_ID)
        self.fault("made")

    def preview(self, _: str) -> dict[str, Any]:
        return {"steps": self.pending}

    def keep(self, _: str, desktops: list[str], __: str) -> None:
        self.fault("keep")
        assert [self.machines.now[f"deskyard-lab.{name}"] for name in desktops] == ["running"]
        self.kept += [self.content[f"deskyard-lab.{name}"].text for name in desktops]

    def deliver(self, _: Any, keys: Any) -> None:
        self.fault("keys")
        self.delivered.append(keys)


@pytest.fixture
def lab(machines: Machines, waits: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Laboratory:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(FILE)
    found = Laboratory(machines, file, [a_backup("20261125-110203", 1)], {DEV1: Content("now", FIRST_ID)})
    machines.act = lambda step: found.fault(step)

    def held(_: str) -> tuple[list[str], list[str]]:
        return sorted(domain.partition(".")[2] for domain in machines.now), []

    backend = SimpleNamespace(check=lambda _: found.fault("check"))
    monkeypatch.setattr(copying, "vault_of", found.vault)
    monkeypatch.setattr(copying, "backend_of", lambda _: backend)
    monkeypatch.setattr(copying, "machines_of", lambda _: machines)
    monkeypatch.setattr(final, "held", held)
    monkeypatch.setattr(final, "keep", found.keep)
    monkeypatch.setattr(workspace, "up", found.up)
    monkeypatch.setattr(workspace, "preview", found.preview)
    monkeypatch.setattr(process_cap, "deliver", lambda _, caps: found.capped.append(caps))
    monkeypatch.setattr(key_delivery, "wanted", lambda *_: {"copy": {"anthropic": "sk-own"}, "dev1": {}})
    monkeypatch.setattr(key_delivery, "deliver", found.deliver)
    monkeypatch.setattr(customise_delivery, "wanted", lambda *_: {})
    SshLink(PLAN.site, PLAN.name).pin("dev1", "the key")
    return found


def a_backup(name: str, made: int, *, gib: int = 1, running: bool = True) -> Backup:
    disks = tuple(Disk(target, gib << 30, 1, target) for target in ("vda", "vdc"))
    return Backup(name, "dev1", made, running=running, nonce="n" if running else "", disks=disks)


def test_another_desktop_is_made_of_a_backup_and_the_first_one_stays_as_it_is(
    lab: Laboratory, machines: Machines, waits: list[Any]
) -> None:
    done = copying.copy(TARGET, "latest", TO)
    assert (lab.content[COPY].text, machines.now[COPY], waits) == ("first", "running", [["copy"]])
    assert done["machines"] == [{"name": "copy", "state": "running", "desired": Power.RUNNING}]
    assert (lab.content[DEV1].text, machines.now[DEV1]) == ("now", "running")
    assert {domain for domain, *_ in machines.moves} == {COPY}
    # As dev1 is declared, but for what is that one's alone.
    assert lab.file.read_text() == f"{FILE}    - {{name: copy, tier: pro, idle: never}}\n"
    assert (lab.delivered, lab.begun) == ([{"copy": {"anthropic": "sk-own"}}], None)


def test_new_desktop_is_told_what_is_its_own_before_it_has_a_network(lab: Laboratory) -> None:
    copying.copy(TARGET, "latest", TO)
    (identity,) = lab.renewed
    plan = declaration.declared(declaration.read_workspace("lab")).plan
    new, first = plan.desktop("copy"), plan.desktop("dev1")
    own = (identity["NAME"], identity["MAC"], identity["MACHINE_ID"], identity["INSTANCE"])
    assert own == ("copy", new.mac, OWN_ID, COPY)
    assert (identity["WAS"], identity["WAS_MAC"]) == ("dev1", first.mac)
    secrets = identity["SECRETS"].splitlines()
    assert "/etc/deskyard/agent-openclaw.env" in secrets and "/etc/deskyard/keys.env" in secrets


def test_cap_of_the_first_ones_processes_is_lifted_where_the_new_ones_tier_has_none(lab: Laboratory) -> None:
    copying.copy(TARGET, "latest", TO)
    assert lab.capped == [{"copy": None}]
    # Asked again by every `up`, since an older disk of it may come back.
    plan = declaration.declared(declaration.read_workspace("lab")).plan
    assert process_cap.wanted(plan) == {"copy": None}


def test_task_that_is_at_work_in_the_workspace_by_now_is_waited_for(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = declaration.declared(declaration.read_workspace("lab")).plan
    with contextlib.ExitStack() as other:
        lab.fault = lambda step: other.enter_context(turn.whole(plan.site, plan.name)) if step == "made" else None
        # Said as it begins to wait: only then that task ends.
        monkeypatch.setattr("deskyard.host.lock.say", lambda text: other.close() if "waiting" in text else None)
        copying.copy(TARGET, "latest", TO)
    assert (lab.content[COPY].text, lab.begun) == ("first", None)


def test_up_asks_for_what_the_first_desktop_was_given_though_the_copy_was_killed(lab: Laboratory) -> None:
    lab.fault = refusing("running", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        copying.copy(TARGET, "latest", TO)
    kept = places().workspace("local", "lab")
    assert {"customised/copy", "processes-capped/copy", "keys-delivered"} <= {
        str(path.relative_to(kept)) for path in kept.rglob("*")
    }


def test_note_of_a_copy_that_is_gone_with_its_content_makes_it_anew(lab: Laboratory) -> None:
    copies.write("local", "lab", "copy", copies.Begun("dev1", lab.present[0].id, has_content=True))
    copying.copy(TARGET, "latest", TO)
    assert (lab.content[COPY].text, len(lab.renewed)) == ("first", 1)


def test_dry_run_says_what_is_renewed_and_makes_nothing(lab: Laboratory, machines: Machines) -> None:
    found = copying.would_copy(TARGET, "latest", TO)
    assert (found["backup"]["id"], found["made"]["machine_id"]) == (lab.present[0].id, OWN_ID)
    assert (found["declared"], found["goes_on"]) == (False, False)
    said = shown.would_copy_text(found)
    assert "lab/copy would be made, declared as lab/dev1 is: tier pro, image desktop, 10.91.7." in said
    assert "its own: SSH host keys" in said and "lab/dev1 stays as it is" in said
    assert (lab.ups, machines.moves, lab.file.read_text(), lab.begun) == ([], [], FILE, None)


def test_dry_run_says_what_else_up_would_change(lab: Laboratory) -> None:
    assert "changed with it" not in shown.would_copy_text(copying.would_copy(TARGET, "latest", TO))
    lab.pending = [
        a_step(GATEWAY, "lab-gateway"),
        *(a_step(DESKTOP, f"lab-desktop-{each}-machine") for each in ("dev2", "copy")),
    ]
    found = copying.would_copy(TARGET, "latest", TO)
    # The new one may have been declared by hand.
    assert found["changed_besides"] == ["desktop dev2", "gateway"]
    assert "changed with it, as declared since the last up: desktop dev2, gateway" in shown.would_copy_text(found)


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("other/copy", "is of another workspace"),
        (TARGET, "is the desktop of the backup itself"),
        ("lab/dev2", "is there already"),
        ("lab", "names no desktop"),
        ("lab/Not A Name", "name"),
        ("lab/gateway", "gateway"),
    ],
)
def test_name_that_cannot_be_a_new_desktops_is_refused_before_anything_is_made(
    lab: Laboratory, machines: Machines, to: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        copying.copy(TARGET, "latest", to)
    assert (lab.ups, machines.moves, lab.file.read_text(), lab.renewed) == ([], [], FILE, [])


def refusing(step: str, error: BaseException) -> Callable[[str], None]:
    def fault(now: str) -> None:
        if now == step:
            raise error

    return fault


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("room", SiteError("storage", "/pool", "10 MiB are free", "free some space")),
        ("check", ConfigError("image", "desktop", "is not built", "run ./inv image.build desktop")),
        ("check", ConfigError("site: quotas", 9, "more than 8 desktops", "declare fewer")),
    ],
)
def test_what_lacks_for_a_new_desktop_is_said_before_anything_is_made(
    lab: Laboratory, machines: Machines, step: str, error: Exception
) -> None:
    lab.fault = refusing(step, error)
    for work in (copying.would_copy, copying.copy):
        with pytest.raises(type(error)) as caught:
            work(TARGET, "latest", TO)
        assert caught.value is error
    assert (lab.ups, machines.moves, lab.file.read_text(), lab.renewed) == ([], [], FILE, [])


def test_tier_with_smaller_disks_than_the_backups_is_refused(lab: Laboratory) -> None:
    lab.present = [a_backup("20261125-110203", 1, gib=200)]
    with pytest.raises(
        ConfigError, match=r"has disks of 40 GiB and .* backup 20261125-110203 of 200 GiB and"
    ) as caught:
        copying.would_copy(TARGET, "latest", TO)
    assert "larger tier" in caught.value.remedy
    lab.present = [replace(lab.present[0], disks=lab.present[0].disks[:1])]
    with pytest.raises(ConfigError, match="backup 20261125-110203 of 200 GiB\\n"):
        copying.would_copy(TARGET, "latest", TO)


def test_backup_into_which_no_number_was_written_makes_no_desktop(lab: Laboratory) -> None:
    lab.present = [a_backup("20261125-110203", 1, running=False)]
    with pytest.raises(SiteError, match="was made while the desktop was off"):
        copying.copy(TARGET, "latest", TO)
    assert lab.ups == []


def test_backup_that_is_not_what_it_says_makes_no_desktop(lab: Laboratory) -> None:
    lab.restored.wrong = ["/ is read-only"]
    with pytest.raises(SiteError, match="read-only"):
        copying.copy(TARGET, "latest", TO)
    assert (lab.ups, lab.file.read_text(), lab.begun) == ([], FILE, None)


@pytest.mark.parametrize("kind", [ConfigError, SiteError, HostError])
def test_what_is_refused_before_any_step_leaves_no_line_of_the_new_desktop(
    lab: Laboratory, kind: type[DeskyardError]
) -> None:
    for step in ("turn", "up"):
        lab.fault = refusing(step, kind("keys", None, "cannot be read", "mend them"))
        with pytest.raises(kind, match="cannot be read"):
            copying.copy(TARGET, "latest", TO)
        assert (lab.file.read_text(), lab.begun) == (FILE, None)


def test_what_fails_once_machines_are_made_stays_declared_and_is_gone_on_with(lab: Laboratory) -> None:
    lab.fault = refusing("steps", HostError("pulumi", "up", "was killed", "run it again"))
    with pytest.raises(HostError, match="was killed"):
        copying.copy(TARGET, "latest", TO)
    assert "name: copy" in lab.file.read_text()
    lab.fault = lambda _: None
    assert copying.would_copy(TARGET, "latest", TO)["goes_on"]


def test_first_desktop_that_went_while_the_turn_was_awaited_is_said_and_nothing_is_declared(
    lab: Laboratory, machines: Machines
) -> None:
    def goes(step: str) -> None:
        if step == "turn":
            del machines.now[DEV1]

    lab.fault = goes
    with pytest.raises(SiteError, match="was taken away meanwhile"):
        copying.copy(TARGET, "latest", TO)
    assert (lab.file.read_text(), lab.begun) == (FILE, None)


def test_what_was_restored_beside_the_first_desktop_is_held_until_the_new_one_has_it(lab: Laboratory) -> None:
    held = []

    def look(step: str) -> None:
        if step in ("turn", "stopped", "running"):
            with pytest.raises(HostError, match="another task holds it"), turn.of_trial(DEV1):
                pass
            held.append(step)

    lab.fault = look
    copying.copy(TARGET, "latest", TO)
    assert held[0] == "turn" and set(held) == {"turn", "stopped", "running"}
    with turn.of_trial(DEV1):
        pass


def test_nothing_new_is_made_in_a_stopped_workspace(lab: Laboratory, machines: Machines) -> None:
    machines.wanted[PLAN.gateway.machine.domain] = Power.OFF
    for work in (copying.would_copy, copying.copy):
        with pytest.raises(SiteError, match="is stopped") as caught:
            work(TARGET, "latest", TO)
        assert "workspace.start lab" in caught.value.remedy
    assert (lab.ups, lab.renewed) == ([], [])


def test_desktop_that_is_declared_already_is_made_as_it_is_declared(lab: Laboratory) -> None:
    written = f"{FILE}    - {{name: copy, tier: max}}\n"
    lab.file.write_text(written)
    assert copying.would_copy(TARGET, "latest", TO)["made"]["tier"] == "max"
    copying.copy(TARGET, "latest", TO)
    assert (lab.content[COPY].text, lab.file.read_text()) == ("first", written)


@pytest.mark.parametrize("fault", ["machine-id", "host key"])
def test_machine_that_would_be_the_first_one_again_does_not_get_the_content(
    lab: Laboratory, machines: Machines, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    lab.forgets = fault == "machine-id"

    def same_key(step: str) -> None:
        if step == "made" and fault == "host key":
            machines.keys[COPY] = "the key"

    lab.fault = same_key
    with pytest.raises(SiteError, match=fault):
        copying.copy(TARGET, "latest", TO)
    assert (lab.content[COPY].text, machines.now[COPY]) == ("empty", "running")
    assert "workspace.up lab --remove copy --no-backup" in capsys.readouterr().err
    assert lab.begun is not None and not lab.begun.has_content


@pytest.mark.parametrize("step", ["renew", "up", "made", "into", "stopped", "running", "keys"])
def test_copy_that_was_killed_at_any_step_is_brought_to_its_end_by_the_next_one(
    lab: Laboratory, machines: Machines, step: str
) -> None:
    name = lab.present[0].id
    lab.fault = refusing(step, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        copying.copy(TARGET, name, TO)
    assert lab.content[DEV1].text == "now" and {domain for domain, *_ in machines.moves} <= {COPY}
    lab.fault = lambda _: None
    goes_on, has_content = step != "renew", step == "keys"
    assert copying.would_copy(TARGET, name, TO)["goes_on"] == goes_on
    if goes_on and not has_content:
        # Somebody may have begun to use it.
        with pytest.raises(ConfigError, match="was begun as a copy, which broke off") as caught:
            copying.copy(TARGET, name, TO)
        assert "--yes" in caught.value.remedy
    copying.copy(TARGET, name, TO, again=True)
    assert (lab.content[COPY].text, machines.now[COPY], lab.begun) == ("first", "running", None)
    assert lab.file.read_text() == f"{FILE}    - {{name: copy, tier: pro, idle: never}}\n"
    # What has its content is not made anew.
    assert len(lab.renewed) == (1 if has_content or step == "renew" else 2)
    with pytest.raises(ConfigError, match="is there already"):
        copying.copy(TARGET, name, TO, again=True)


def test_copy_with_its_content_is_not_overwritten_by_another_backup(lab: Laboratory) -> None:
    lab.present.append(a_backup("20261126-110203", 2))
    first, second = (kept.id for kept in lab.present)
    lab.fault = refusing("keys", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        copying.copy(TARGET, first, TO)
    lab.fault = lambda _: None
    with pytest.raises(ConfigError, match="is there already"):
        copying.copy(TARGET, second, TO, again=True)


def test_what_somebody_put_into_a_copy_that_broke_off_is_backed_up_before_it_goes(lab: Laboratory) -> None:
    lab.fault = refusing("into", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        copying.copy(TARGET, "latest", TO)
    lab.content[COPY] = Content("somebody's", OWN_ID)
    lab.fault = refusing("keep", SiteError("last backup", TO, "cannot be made and verified", "free some space"))
    with pytest.raises(SiteError, match="cannot be made and verified"):
        copying.copy(TARGET, "latest", TO, again=True)
    assert lab.content[COPY].text == "somebody's"
    lab.fault = lambda _: None
    copying.copy(TARGET, "latest", TO, again=True)
    assert (lab.kept, lab.content[COPY].text) == (["somebody's"], "first")


def test_note_of_another_backup_gives_nobodys_desktop_away(lab: Laboratory) -> None:
    lab.present.append(a_backup("20261126-110203", 2))
    first, second = (kept.id for kept in lab.present)
    lab.fault = refusing("made", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        copying.copy(TARGET, first, TO)
    lab.fault = lambda _: None
    with pytest.raises(ConfigError, match="is there already"):
        copying.copy(TARGET, second, TO, again=True)
    assert lab.content[COPY].text == "empty"
    # The newest of then, not of now.
    done = copying.copy(TARGET, "latest", TO, again=True)
    assert (done["backup"]["id"], lab.content[COPY].text) == (first, "first")


def test_second_copy_to_the_same_name_is_refused_before_it_looks(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "vault_of", lambda *_: pytest.fail("looked"))
    with turn.of_copy(COPY), pytest.raises(HostError, match="another task holds it"):
        copying.copy(TARGET, "latest", TO)


def test_cluster_makes_no_other_desktop_of_a_backup_and_says_what_there_is() -> None:
    archive: Any = InArchive(SimpleNamespace())
    machine, found = SimpleNamespace(target=TARGET), SimpleNamespace(id="20261125-110203")
    for work in (archive.require_copies, lambda *given: archive.copied(*given, "copy", None, {})):
        with pytest.raises(SiteError, match="makes no other desktop of its backups") as caught:
            work(machine, found)
        assert "backup.restore lab/dev1 20261125-110203" in caught.value.remedy
        assert "docs/proxmox.md" in caught.value.remedy
