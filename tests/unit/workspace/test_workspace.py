"""The guard of data, and small parts of access."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pulumi import automation
from pulumi.automation import CommandResult, errors

from deskyard.access import access
from deskyard.declaration import declaration, stack_file
from deskyard.desktop import customise_delivery, key_delivery
from deskyard.engine import leftovers, on_proxmox, running
from deskyard.engine import stack as pulumi_stack
from deskyard.engine.backend import backend_of
from deskyard.engine.change import Change, clean
from deskyard.engine.silent_stack import SilentStack
from deskyard.engine.stack import WorkspaceStack, _clear_errors, _stale
from deskyard.errors import ConfigError, SiteError
from deskyard.model.site import Site
from deskyard.plan.power import Power
from deskyard.site.libvirt import daemon
from deskyard.site.proxmox import plugin
from deskyard.workspace import copies, last_backups, turn, workspace
from tests.desktop.lab import planned
from tests.support import paper_cluster

DISK = "deskyard:libvirt:Volume"


def _urn(name: str, component: str = "Desktop", kind: str = DISK, stack: str = "lab") -> str:
    """As Pulumi writes it: the components that a resource stands in are part of its type."""
    above = f"deskyard:workspace:Workspace$deskyard:workspace:{component}"
    return f"urn:pulumi:{stack}::deskyard::{above}${kind}::{name}"


def _change(operation: str, name: str, component: str = "Desktop", kind: str = DISK, stack: str = "lab") -> Change:
    return Change(operation, kind, name, _urn(name, component, kind, stack))


@pytest.mark.parametrize("operation", ["delete", "replace", "delete-replaced"])
def test_a_run_that_takes_a_desktops_disk_is_stopped(operation: str) -> None:
    with pytest.raises(ConfigError, match="disk of: dev1"):
        workspace._guard_data("lab", [_change(operation, "lab-desktop-dev1-disk")], [])


def test_a_named_desktop_may_go() -> None:
    workspace._guard_data("lab", [_change("delete", "lab-desktop-dev1-disk")], ["dev1"])


def test_naming_one_desktop_does_not_free_another() -> None:
    steps = [_change("delete", f"lab-desktop-{name}-disk") for name in ("dev1", "dev2")]
    with pytest.raises(ConfigError, match="disk of: dev2"):
        workspace._guard_data("lab", steps, ["dev1"])


def test_a_gateway_may_be_replaced_and_a_disk_may_grow() -> None:
    steps = [_change("replace", "lab-gateway-disk", "Gateway"), _change("update", "lab-desktop-dev1-disk")]
    workspace._guard_data("lab", steps, [])


def test_a_desktop_has_a_machine_once_the_state_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, vm = "deskyard:libvirt:Domain", "proxmoxve:index/vmLegacy:VmLegacy"
    kept = [
        (DISK, _urn("lab-desktop-dev1-disk")),
        (domain, _urn("lab-desktop-dev1-machine", kind=domain)),
        # A run that broke off has left its disk.
        (DISK, _urn("lab-desktop-dev2-disk")),
        (vm, _urn("lab-desktop-dev3-machine", kind=vm)),
        (domain, _urn("lab-gateway-machine", "Gateway", domain)),
    ]
    resources = [{"type": kind, "urn": urn} for kind, urn in kept]
    monkeypatch.setattr(WorkspaceStack, "resources", lambda _: resources)
    assert WorkspaceStack("lab").desktops_with_machines() == {"dev1", "dev3"}
    assert WorkspaceStack("lab").desktops_with_disks() == {"dev1", "dev2", "dev3"}


class Stack:
    """Knows one desktop, and notes whose protection is lifted."""

    def __init__(self) -> None:
        self.lifted: list[str] = []

    def desktops_with_disks(self) -> set[str]:
        return {"dev1"}

    def unprotect(self, desktop: str) -> None:
        self.lifted.append(desktop)


def test_a_named_desktop_that_is_gone_already_stops_no_run_that_is_begun_again() -> None:
    stack: Any = Stack()
    declared: Any = SimpleNamespace(workspace=SimpleNamespace(persistent=list))
    workspace._release(declared, stack, ["dev0", "dev1"])
    assert stack.lifted == ["dev1"]


class Cluster:
    """Work that fails so many times; notes pauses and clearings."""

    name = "lab"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reason: str, failures: int) -> None:
        self.reason, self.failures, self.tries, self.cleared = reason, failures, 0, 0
        self.pauses: list[float] = []
        monkeypatch.setattr(leftovers, "clear", self._clear)
        monkeypatch.setattr(time, "sleep", self.pauses.append)

    def on_cluster(self) -> None:
        return None

    def work(self) -> None:
        self.tries += 1
        self._fail()

    def run(self, backend: str = "proxmox") -> None:
        site: Any = SimpleNamespace(backend=backend)
        stack: Any = self
        workspace._again(backend_of(site), stack, self.work)

    def _clear(self, *_: Any) -> None:
        self.cleared += 1

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise SiteError("workspace", "lab", self.reason, "mend it")


LOCKED, BACKED_UP = "got lock request timeout", "received an HTTP 500 response - Reason: VM is locked (backup)"


def test_what_passes_is_tried_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, LOCKED, failures=3)
    cluster.run()
    assert (cluster.tries, cluster.cleared) == (4, 3)
    assert all(least <= pause <= 1.5 * least for least, pause in zip((5, 10, 20), cluster.pauses, strict=True))


def test_what_does_not_pass_is_told_after_a_bounded_number_of_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, LOCKED, failures=1000)
    with pytest.raises(SiteError, match="lock request timeout"):
        cluster.run()
    assert cluster.tries == on_proxmox.TRIES


def test_a_lock_that_somebody_holds_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, BACKED_UP, failures=1)
    with pytest.raises(SiteError, match="locked"):
        cluster.run()
    assert (cluster.tries, cluster.pauses) == (1, [])


def test_on_this_machine_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, LOCKED, failures=1)
    with pytest.raises(SiteError, match="lock request timeout"):
        cluster.run(backend="libvirt")
    assert cluster.tries == 1


def test_a_lock_that_is_not_had_while_clearing_is_waited_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, LOCKED, failures=2)
    monkeypatch.setattr(leftovers, "clear", lambda *_: cluster._fail())
    cluster.run()
    assert (cluster.tries, len(cluster.pauses)) == (2, 2)


def test_a_desktop_that_is_still_declared_keeps_its_protection() -> None:
    stack: Any = Stack()
    declared: Any = SimpleNamespace(workspace=SimpleNamespace(persistent=lambda: [SimpleNamespace(name="dev1")]))
    with pytest.raises(ConfigError, match="is still declared"):
        workspace._release(declared, stack, ["dev0", "dev1"])
    assert stack.lifted == []


def test_pulumis_own_protection_is_said_in_our_words() -> None:
    text = f'error: resource "{_urn("lab-desktop-dev1-disk")}" cannot be deleted\nbecause it is protected.'
    with pytest.raises(ConfigError, match="disk of: dev1"), _clear_errors("lab"):
        raise errors.CommandError(CommandResult(stdout=text, stderr="", code=1))


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("30m", 1800), ("8h", 28_800), ("2d", 172_800)])
def test_durations_are_read(text: str, expected: int) -> None:
    assert access.seconds(text) == expected


@pytest.mark.parametrize("text", ["", "8", "0h", "-1h", "8 h", "8w", "1h30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no duration"):
        access.seconds(text)


def test_a_provider_error_is_shown_without_its_trace() -> None:
    message = "Unexpected <class 'Exception'>: no space left:\n  File \"server.py\", line 1\n    raise\n"
    assert clean(f"<{{%fg 1%}}>error: {message}<{{%reset%}}>") == "no space left"


def test_a_lock_of_another_machine_is_never_lifted() -> None:
    assert not _stale("created by root@another-machine (pid 4194999) at 2026")


def test_a_stack_asks_once_whom_its_plugin_trusts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").touch()
    given: list[Mapping[str, str]] = []

    def unknown(name: str, _: object) -> None:
        raise errors.StackNotFoundError(CommandResult("", f"no stack named '{name}' found", 255))

    def open_workspace(env_vars: Mapping[str, str], **_: object) -> SimpleNamespace:
        given.append(env_vars)
        return SimpleNamespace()

    answers = iter([{"ROOTS": "api.pem"}])
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(declaration, "site_of", lambda _: paper_cluster.rack())
    monkeypatch.setattr(plugin, "plugin_environment", lambda site: next(answers))
    monkeypatch.setattr(pulumi_stack, "_home", lambda: tmp_path)
    monkeypatch.setattr(pulumi_stack, "_command", lambda: None)
    monkeypatch.setattr(automation, "LocalWorkspace", open_workspace)
    monkeypatch.setattr(SilentStack, "select", unknown)
    stack = WorkspaceStack("lab")
    assert not stack.exists()
    assert not stack.exists()
    assert [env["ROOTS"] for env in given] == ["api.pem"] * 2


@pytest.mark.parametrize(
    ("stopped", "desktop", "what"),
    [
        ([], "dev1", None),
        (["dev2"], "dev1", None),
        (["dev1"], None, None),
        (["dev1"], "dev1", "lab/dev1'?: does not run"),
        (["gateway", "dev1"], "dev1", "lab'?: is not up"),
    ],
)
def test_what_is_asked_for_has_to_run(
    monkeypatch: pytest.MonkeyPatch, stopped: list[str], desktop: str | None, what: str | None
) -> None:
    plan = planned("dev1", "dev2")
    machines = {desktop.name: desktop.machine.domain for desktop in plan.desktops} | {
        "gateway": plan.gateway.machine.domain
    }
    monkeypatch.setattr(daemon, "answers", lambda: True)
    monkeypatch.setattr(running, "stopped_machines", lambda _: [machines[name] for name in stopped])
    if what is None:
        running.require_running(plan, desktop)
        return
    with pytest.raises(SiteError, match=what):
        running.require_running(plan, desktop)


@pytest.mark.parametrize("active", [["deskyard-lab.gateway"], ["deskyard-lab.dev1", "deskyard-other.gateway"], None])
def test_gateway_is_asked_for_by_its_name_and_nothing_is_planned(
    monkeypatch: pytest.MonkeyPatch, active: list[str] | None
) -> None:
    domains = [SimpleNamespace(name=lambda name=name: name) for name in active or ()]
    link = SimpleNamespace(listAllDomains=lambda _: domains)
    monkeypatch.setattr(daemon, "answers", lambda: active is not None)
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(link))
    if active and "deskyard-lab.gateway" in active:
        running.require_gateway(Site(), "lab")
        return
    with pytest.raises(SiteError, match=r"lab'?: is not up"):
        running.require_gateway(Site(), "lab")


@pytest.mark.parametrize("stack", ["lab", "a-desktop-b"])
@pytest.mark.parametrize("name", ["dev1", "dev1-b", "desktop-disk", "own-net0"])
def test_resource_belongs_to_the_desktop_that_its_component_says(stack: str, name: str) -> None:
    for part in ("disk", "machine", "power", "own-net0", "rules"):
        change = _change("update", f"{stack}-desktop-{name}-{part}", stack=stack)
        assert (change.desktop, change.owner) == (name, f"desktop {name}")


@pytest.mark.parametrize(
    ("name", "component", "owner"),
    [
        ("a-desktop-b-gateway-disk", "Gateway", "gateway"),
        ("a-desktop-b-desktop-filter", "Network", "workspace"),
        ("a-desktop-b-vnet", "Network", "workspace"),
    ],
)
def test_workspace_with_the_word_desktop_in_its_name_has_no_more_desktops_for_it(
    name: str, component: str, owner: str
) -> None:
    change = _change("replace", name, component, stack="a-desktop-b")
    assert (change.desktop, change.owner, change.is_disk) == (None, owner, False)
    workspace._guard_data("a-desktop-b", [change], [])


def test_pulumis_protection_names_the_desktop_whatever_the_workspace_is_called() -> None:
    urn = _urn("a-desktop-b-desktop-dev1-disk", stack="a-desktop-b")
    text = f'error: resource "{urn}" cannot be deleted\nbecause it is protected.'
    with pytest.raises(ConfigError, match=r"(?s)disk of: dev1\n.*--remove dev1$"), _clear_errors("a-desktop-b"):
        raise errors.CommandError(CommandResult(stdout=text, stderr="", code=1))


@pytest.mark.parametrize(("asked", "freed"), [("dev1", ["dev1"]), ("dev1-disk", ["dev1-disk"]), (None, [])])
def test_protection_is_lifted_of_the_named_desktop_alone(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, freed: list[str]
) -> None:
    """Of a name that ends like a part of another desktop, in a workspace whose own name holds the word."""
    name = "a-desktop-b"
    disks = {desktop: f"{name}-desktop-{desktop}-disk" for desktop in ("dev1", "dev1-disk")}
    resources = [{"type": DISK, "urn": _urn(disk, stack=name), "protect": True} for disk in disks.values()]
    state = automation.Deployment(3, {"resources": resources})
    written: list[automation.Deployment] = []
    stack: Any = SimpleNamespace(export_stack=lambda: state, import_stack=written.append)
    made = WorkspaceStack(name)
    monkeypatch.setattr(made, "_select", lambda: stack)
    made.unprotect(asked)
    kept = [resource["urn"] for resource in resources if resource["protect"]]
    assert kept == [_urn(disks[disk], stack=name) for disk in disks if asked is not None and disk not in freed]
    assert written == [state]


class Asleep:
    """Machines of which some are wanted off; notes what is wanted and shut down."""

    def __init__(self, **wanted: Power) -> None:
        self.plan = planned("dev1", "dev2")
        self.wanted = {self.plan.machines()[name].domain: power for name, power in wanted.items()}
        self.moves: list[tuple[str, Any]] = []

    def mend_wishes(self, domains: Collection[str]) -> None:
        """No way back to a snapshot broke off."""

    def desired(self) -> dict[str, Power]:
        return self.wanted

    def want(self, domain: str, power: Power) -> None:
        self.moves.append((domain, power))

    def shut_down(self, domain: str, *, force: bool) -> None:
        self.moves.append((domain, force))


def test_up_of_a_stopped_workspace_is_refused_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = Asleep(gateway=Power.OFF, dev1=Power.OFF)
    found = SimpleNamespace(site=Site(), plan=machines.plan)
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(workspace, "_checked", lambda _: found)
    monkeypatch.setattr(declaration, "read", lambda *_: found)
    monkeypatch.setattr(workspace, "WorkspaceStack", lambda *_: object())
    monkeypatch.setattr(workspace, "machines_of", lambda _: machines)
    with pytest.raises(SiteError, match=r"is stopped\n.*workspace\.start lab"):
        workspace.up("lab")
    assert machines.moves == []


@pytest.fixture
def declared_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asleep:
    """Workspace `lab`, declared, of which a run would change something; the engine is not there."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    declaration.stack_file("lab").write_text(
        "config:\n  deskyard:network: 10.80.4.0/24\n  deskyard:desktops: [{name: d}]\n"
    )
    machines = Asleep()
    nothing: dict[str, Any] = dict.fromkeys(("clear", "guard", "prepare_starts"), lambda *_, **__: None)
    found = SimpleNamespace(site=Site(), plan=machines.plan)
    for name, function in {
        "_checked": lambda _: found,
        "WorkspaceStack": lambda *_: SimpleNamespace(on_cluster=None, up=None),
        "machines_of": lambda _: machines,
        "backend_of": lambda _: SimpleNamespace(**nothing),
        "_look_after_seats": lambda _: None,
        "_steps": lambda *_: [_change("create", "lab-desktop-dev1-machine")],
        "_new_desktops": lambda *_: [],
    }.items():
        monkeypatch.setattr(workspace, name, function)
    read = declaration.read
    # As it is written, so that one that was put away is missed; planned as the machines are.
    monkeypatch.setattr(declaration, "read", lambda *_: read("lab") and found)
    monkeypatch.setattr(key_delivery, "wanted", lambda *_: None)
    monkeypatch.setattr(customise_delivery, "wanted", lambda _: {})
    return machines


def test_up_that_makes_machines_forgets_which_backups_were_the_last(
    declared_lab: Asleep, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = last_backups.LastBackups("op_1", {"dev1": "dev1-0001"}, ["dev1"])
    last_backups.write("local", "lab", note)
    assert last_backups.read("local", "lab") == note

    def stops(*_: Any) -> None:
        assert last_backups.read("local", "lab") == last_backups.LastBackups()
        raise SiteError("machine", "lab", "was made", "look at it")

    monkeypatch.setattr(workspace, "_again", stops)
    with pytest.raises(SiteError, match="was made"):
        workspace.up("lab")


@pytest.mark.parametrize("on_turn", [None, lambda: pytest.fail("wrote into what is gone")], ids=["alone", "changing"])
def test_up_that_waited_for_the_end_of_its_workspace_makes_nothing(
    declared_lab: Asleep, monkeypatch: pytest.MonkeyPatch, on_turn: Callable[[], object] | None
) -> None:
    whole = turn.whole

    @contextlib.contextmanager
    def late(site: str, name: str) -> Iterator[None]:
        with whole(site, name):
            stack_file.put_away(declaration.stack_file(name))
            yield

    monkeypatch.setattr(turn, "whole", late)
    monkeypatch.setattr(workspace, "_again", lambda *_: pytest.fail("made"))
    with pytest.raises(ConfigError, match="does not exist"):
        workspace.up("lab", on_turn=on_turn)


def test_copy_without_its_content_yet_is_not_customised(declared_lab: Asleep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(customise_delivery, "wanted", lambda _: dict.fromkeys(("a", "b", "c")))
    for name, has_content in (("a", False), ("b", True)):
        copies.write("local", "lab", name, copies.Begun("dev1", "20261125-110203", has_content))
    declared: Any = SimpleNamespace(site=Site(), plan=declared_lab.plan)
    assert sorted(workspace._to_customise(declared)) == ["b", "c"]


@pytest.mark.parametrize(("now", "moves"), [(Power.OFF, []), (Power.RUNNING, [Power.OFF, False])])
def test_desktop_that_was_made_anew_is_off_again_if_it_was(
    monkeypatch: pytest.MonkeyPatch, now: Power, moves: list[Any]
) -> None:
    machines = Asleep(gateway=Power.RUNNING, dev1=now, dev2=Power.RUNNING)
    dev1 = machines.plan.desktop("dev1").machine.domain
    monkeypatch.setattr(workspace, "machines_of", lambda _: machines)
    workspace._put_back(machines.plan, {dev1: Power.OFF})
    assert machines.moves == [(dev1, move) for move in moves]
