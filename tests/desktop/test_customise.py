"""What customises a desktop comes over SSH, is applied again, and takes nothing from the agent that lives there."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deskyard.desktop import customise_delivery, program
from deskyard.guest import customise
from deskyard.plan import customisation
from deskyard.site import guest_program
from tests.desktop.lab import Lab
from tests.desktop.owner import Owner

HOME = customisation.HOME.lstrip("/")
COUNTED = '#!/bin/sh\nset -eu\necho "$(id -un) $PWD ${EDITOR:-none}" >>~/ran-%s\necho said by %s\n'
CLEAN = f"""
systemctl stop web-terminal.service 2>/dev/null || :
rm -rf {customisation.STATE} {customisation.HOME} {customisation.ENVIRONMENT_FILE} {customisation.PROFILE_FILE}
rm -rf /etc/systemd/system/*.service.d /etc/systemd/system/web-terminal.service
cp -r /etc/skel {customisation.HOME}
chown -R agent:agent {customisation.HOME}
"""
TERMINAL = "[Service]\nType=exec\nUser=agent\nExecStart=/bin/sleep infinity\n"


@pytest.fixture(autouse=True)
def clean(lab: Lab, owner: Owner) -> Iterator[None]:
    """Desktops as a first boot leaves them."""
    for host in ("desk", "other"):
        lab.do(host, CLEAN)
    for mark in lab.link.folder.glob("customised/*"):
        mark.unlink()
    yield


def folder(path: Path, files: Mapping[str, str]) -> Path:
    """A folder that holds exactly these files."""
    for file in [file for file in path.rglob("*") if file.is_file()]:
        file.unlink()
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def states(report: Mapping[str, Any]) -> dict[str, str]:
    return {file["path"]: file["state"] for file in report["files"]}


def test_up_brings_files_environment_and_scripts_and_the_next_changes_nothing(lab: Lab, owner: Owner) -> None:
    (lab.root("desk") / "etc/systemd/system/web-terminal.service").write_text(TERMINAL)
    shared = {
        "home/.bashrc": "# ours\n",
        "home/notes/memory.md": "all\n",
        "environment": "EDITOR=nano\nLEVEL=two words\n",
    }
    every = folder(owner.folder / "every", {**shared, "first-boot": COUNTED % ("all", "all")})
    own = {"home/notes/memory.md": "desk\n", "environment": "EDITOR=vi\n", "first-boot": COUNTED % ("own", "own")}
    desk = folder(owner.folder / "own", {**own, "every-apply": COUNTED % ("every", "every")})
    owner.customise(every, desk=desk)
    said = owner.up()
    assert "desk: 1 new, 1 changed, environment changed" in said
    assert "desk: first-boot of the workspace runs, for at most 600 s" in said

    home = lab.root("desk") / HOME
    assert (home / ".bashrc").read_text() == "# ours\n"
    assert (home / "notes/memory.md").read_text() == "desk\n"
    assert (lab.root("other") / HOME / "notes/memory.md").read_text() == "all\n"
    assert lab.do("desk", "stat -c '%U:%G %a' ~agent/notes ~agent/notes/memory.md").stdout.split("\n")[:2] == [
        "agent:agent 755",
        "agent:agent 644",
    ]
    assert (home / "ran-all").read_text() == (home / "ran-own").read_text() == "agent /home/agent vi\n"
    assert lab.do("desk", f"cat {customisation.STATE}/scripts/first-boot-desktop.log").stdout == "said by own\n"
    # Sessions of the agent have the environment, others do not; so has a service after its next start.
    show = "sh -lc 'echo \"${EDITOR:-none} ${LEVEL:-none}\"'"
    assert lab.do("desk", show, user="agent").stdout == "vi two words\n"
    assert lab.do("other", show, user="agent").stdout == "nano two words\n"
    assert lab.do("desk", show, user="stranger").stdout == "none none\n"
    service = "systemctl start web-terminal; tr '\\0' '\\n' </proc/$(systemctl show -P MainPID web-terminal)/environ"
    assert "LEVEL=two words" in lab.do("desk", service).stdout.splitlines()

    inode = (home / ".bashrc").stat().st_ino
    said = owner.up()
    assert "desk: nothing to change" in said and "other: nothing to change" in said and "first-boot" not in said
    assert (home / ".bashrc").stat().st_ino == inode
    assert (home / "ran-own").read_text().count("\n") == 1
    assert (home / "ran-every").read_text().count("\n") == 2

    owner.customise()
    said = owner.up()
    assert "other: 2 removed, environment removed" in said
    assert not (home / "notes").exists() and (home / "ran-own").exists()
    assert lab.do("desk", show, user="agent").stdout == "none none\n"
    assert "customise" not in owner.up()


def test_what_the_agent_changed_is_kept_listed_and_only_overwritten_with_a_backup(lab: Lab, owner: Owner) -> None:
    names = ("same", "updated", "changed", "deleted", "dropped", "dropped-but-changed")
    own = folder(owner.folder / "own", {f"home/{name}": "1\n" for name in names})
    owner.customise(desk=own)
    owner.customised("lab/desk")
    lab.do("desk", "cd ~agent; echo mine | tee changed dropped-but-changed >/dev/null; rm deleted", user="agent")
    after = {"same": "1\n", "updated": "2\n", "changed": "2\n", "deleted": "1\n", "added": "1\n"}
    folder(own, {f"home/{name}": text for name, text in after.items()})
    expected = {
        "added": "new",
        "updated": "changed",
        "changed": "kept",
        "deleted": "kept",
        "dropped": "removed",
        "dropped-but-changed": "kept",
    }
    before = lab.do("desk", f"cd {customisation.HOME}; head -n 99 * ; cat {customisation.STATE}/applied.json").stdout
    dry = owner.customised("lab", "--dry-run")
    assert list(dry) == ["desk"]
    assert states(dry["desk"]) == expected and dry["desk"]["unchanged"] == 1
    assert (
        before
        == lab.do("desk", f"cd {customisation.HOME}; head -n 99 * ; cat {customisation.STATE}/applied.json").stdout
    )

    assert states(owner.customised("lab/desk")["desk"]) == expected
    home = lab.root("desk") / HOME
    found = {path.name: path.read_text() for path in home.iterdir() if not path.name.startswith(".")}
    kept = {"changed": "mine\n", "dropped-but-changed": "mine\n"}
    assert found == {"same": "1\n", "updated": "2\n", "added": "1\n", **kept}
    assert states(owner.customised("lab/desk")["desk"]) == {"changed": "kept", "deleted": "kept"}

    done = states(owner.customised("lab/desk", "--overwrite")["desk"])
    assert done == {"changed": "overwritten", "deleted": "new"}
    assert (home / "changed").read_text() == "2\n" and (home / "changed.deskyard-kept").read_text() == "mine\n"
    assert states(owner.customised("lab/desk")["desk"]) == {}


def test_a_planted_link_leads_root_nowhere(lab: Lab, owner: Owner) -> None:
    own = folder(owner.folder / "own", {"home/.config/passwd": "evil\n", "home/hosts": "evil\n", "home/fine": "1\n"})
    owner.customise(desk=own)
    kept = lab.do("desk", "ls -lR /etc | sha256sum; cat /etc/passwd /etc/hosts").stdout
    lab.do(
        "desk",
        "cd ~agent; ln -s /etc .config; ln -s /etc/hosts hosts; ln -s /etc/passwd .fine.deskyard-part",
        user="agent",
    )
    done = states(owner.customised("lab/desk")["desk"])
    assert done == {".config/passwd": "kept", "hosts": "kept", "fine": "new"}
    done = states(owner.customised("lab/desk", "--overwrite")["desk"])
    assert done == {".config/passwd": "kept", "hosts": "overwritten"}
    assert (lab.root("desk") / HOME / "hosts.deskyard-kept").is_symlink()
    assert lab.do("desk", "ls -lR /etc | sha256sum; cat /etc/passwd /etc/hosts").stdout == kept


NO_FOLLOW = ("FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW", "FOLDER = os.O_RDONLY | os.O_DIRECTORY")
AS_AGENT = ("    os.seteuid(account.pw_uid)", "    pass")


@pytest.mark.parametrize(
    ("without", "written"),
    [([], False), ([NO_FOLLOW], False), ([AS_AGENT], False), ([NO_FOLLOW, AS_AGENT], True)],
    ids=["whole", "links are followed", "root writes", "neither"],
)
def test_either_of_two_walls_holds_against_a_link_and_without_both_it_is_followed(
    lab: Lab, owner: Owner, monkeypatch: pytest.MonkeyPatch, without: list[tuple[str, str]], written: bool
) -> None:
    source = guest_program.source(customise)
    for part, weaker in without:
        assert part in source
        source = source.replace(part, weaker)
    monkeypatch.setattr(guest_program, "source", lambda _: source)
    lab.do("desk", "rm -rf /etc/deskyard-target; install -d -m 0755 /etc/deskyard-target")
    lab.do("desk", "ln -s /etc/deskyard-target ~agent/d", user="agent")
    owner.customise(desk=folder(owner.folder / "own", {"home/d/planted": "evil\n"}))
    done = states(owner.customised("lab/desk", "--overwrite")["desk"])
    assert done == {"d/planted": "new" if written else "kept"}
    assert (lab.root("desk") / "etc/deskyard-target/planted").exists() == written


SWAP = """
cd ~agent
timeout 60 sh -c 'while [ ! -e stop ]; do
  rm -rf d; ln -s /etc/deskyard-target d; echo >>swaps; rm -f d; mkdir d
done' >/dev/null 2>&1 &
"""


def test_a_link_that_is_swapped_in_while_files_are_laid_leads_root_nowhere(lab: Lab, owner: Owner) -> None:
    own = folder(owner.folder / "own", {})
    owner.customise(desk=own)
    lab.do("desk", "rm -rf /etc/deskyard-target; install -d -m 0755 /etc/deskyard-target")
    lab.do("desk", SWAP, user="agent")
    try:
        for number in range(4):
            folder(own, {f"home/d/{name}": f"{number}" for name in range(100)})
            # Whatever becomes of it: the agent works against it.
            owner.inv("desktop.customise", "lab/desk", "--overwrite", "--json")
    finally:
        lab.do("desk", "touch ~agent/stop; sleep 0.5", user="agent")
    assert int(lab.do("desk", "wc -l <~agent/swaps").stdout) > 100
    assert list((lab.root("desk") / "etc/deskyard-target").iterdir()) == []
    assert lab.do("desk", f"find {customisation.HOME} -not -user agent").stdout == ""


def test_a_first_boot_that_fails_is_shown_tried_again_and_then_done(lab: Lab, owner: Owner) -> None:
    script = "#!/bin/sh\necho one\ntest -e ~/ready || { echo not ready >&2; exit 7; }\necho x >>~/done\n"
    owner.customise(desk=folder(owner.folder / "own", {"first-boot": script, "home/a": "1\n"}))
    output = owner.inv("workspace.up", "lab", "--json")
    error = output.document["error"]
    assert output.code == 1 and (error["field"], error["value"]) == ("first-boot of the desktop", "lab/desk")
    assert error["reason"] == "ended with code 7\none\nnot ready"
    assert "first-boot-desktop.log" in error["remedy"]
    assert (lab.root("desk") / HOME / "a").exists()

    lab.do("desk", "touch ~agent/ready", user="agent")
    due = owner.customised("lab/desk", "--dry-run")["desk"]["scripts"]
    assert due == [{"script": "first-boot", "of": "desktop", "state": "due"}]
    runs = [owner.customised("lab/desk", *options)["desk"]["scripts"][0]["state"] for options in ((), (), ("--again",))]
    assert runs == ["ran", "done", "ran"]
    assert (lab.root("desk") / HOME / "done").read_text() == "x\nx\n"


def test_an_interrupted_apply_goes_on_at_the_next(lab: Lab, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    own = folder(owner.folder / "own", {f"home/f{number}": "x" * 1000 for number in range(6)})
    owner.customise(desk=own)
    monkeypatch.setattr(customise_delivery, "BATCH_BYTES", 1500)
    ask, asked = program.ask, []

    def cut(*arguments: Any, **named: Any) -> Any:
        asked.append(arguments)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return ask(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(program, "ask", cut)
        assert owner.inv("desktop.customise", "lab/desk").code == 130
    home = lab.root("desk") / HOME
    assert sorted(path.name for path in home.glob("f*")) == ["f0", "f1"]
    assert states(owner.customised("lab/desk")["desk"]) == dict.fromkeys(("f2", "f3", "f4", "f5"), "new")
    assert states(owner.customised("lab/desk")["desk"]) == {}


# Inside, so that the way there costs no time.
KILL = """
cd ~agent/all
timeout 60 sh -c 'until [ -e 19 ]; do sleep 0.001; done' && kill -9 $(pgrep -f '^python3 -I -c')
"""


def test_a_program_that_is_killed_on_the_desktop_loses_nothing(
    lab: Lab, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else it would be asked again at once.
    monkeypatch.setattr(program, "REACH_SECONDS", 0.0)
    own = folder(owner.folder / "own", {f"home/all/{number}": "1" for number in range(400)})
    owner.customise(desk=own)
    lab.do("desk", "mkdir ~agent/all; echo mine >~agent/all/399", user="agent")
    last = lab.root("desk") / HOME / "all"
    killed: list[int] = []

    def kill() -> None:
        killed.append(lab.do("desk", KILL, check=False).returncode)

    thread = threading.Thread(target=kill)
    thread.start()
    output = owner.inv("desktop.customise", "lab/desk")
    thread.join(timeout=120)
    assert (output.code, killed) == (1, [0]), output.err
    assert 20 <= len(list(last.glob("[0-9]*"))) < 400
    folder(own, {f"home/all/{number}": "2" for number in range(400)})
    done = states(owner.customised("lab/desk")["desk"])
    assert [path for path, state in done.items() if state == "kept"] == ["all/399"]
    found = {path.name: path.read_text() for path in last.iterdir()}
    assert found == {**{str(number): "2" for number in range(399)}, "399": "mine\n"}


@pytest.mark.usefixtures("ctrl_c")
def test_a_script_whose_starter_went_away_runs_to_its_end_and_is_not_run_twice(lab: Lab, owner: Owner) -> None:
    script = "#!/bin/sh\necho begun >>~/runs\nsleep 6\necho ended >>~/runs\n"
    owner.customise(desk=folder(owner.folder / "own", {"first-boot": script}))
    runs = lab.root("desk") / HOME / "runs"

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not runs.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert owner.inv("desktop.customise", "lab/desk").code == 130
    # The next waits for the first.
    assert owner.customised("lab/desk")["desk"]["scripts"][0]["state"] == "done"
    assert runs.read_text() == "begun\nended\n"


def test_half_a_request_changes_nothing(lab: Lab, owner: Owner) -> None:
    source = guest_program.source(customise)
    remote = ["sudo", "-n", "python3", "-I", "-c", guest_program.START, str(len(source))]
    done = lab.link.run("desk", remote, timeout=60, stdin=f'{source}{{"do": "begin", ', check=False)
    assert done.code != 0 and not (lab.root("desk") / customisation.STATE.lstrip("/")).exists()


def test_a_pinned_repository_is_as_good_as_a_folder(lab: Lab, owner: Owner) -> None:
    repository = folder(owner.folder / "made", {"home/a": "from git\n", "README.md": "x"})
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for argv in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "a"], ["tag", "v1"]):
        subprocess.run(["git", "-C", str(repository), *argv], check=True, timeout=60)
    owner.customise(desk=repository)
    content = owner.file.read_text().replace("from: made", f"from: file://{repository}\n      ref: v1")
    owner.file.write_text(content)
    assert states(owner.customised("lab/desk")["desk"]) == {"a": "new"}
    assert (lab.root("desk") / HOME / "a").read_text() == "from git\n"
