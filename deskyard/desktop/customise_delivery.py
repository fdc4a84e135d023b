"""Brings desktops what customises them: files for the agent's home, its environment, and its owner's scripts."""

import base64
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.declaration.declaration import Declared
from deskyard.desktop import customise_source, program
from deskyard.errors import CommandError, ConfigError, SiteError
from deskyard.guest import customise
from deskyard.guest import script as script_program
from deskyard.host.at_once import at_once
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import leave_mark
from deskyard.model.customise import Customise
from deskyard.plan import customisation
from deskyard.plan.account import AGENT
from deskyard.plan.customisation import FIRST_BOOT, MAX_FILES, Customisation, Layer, Script, laid_over
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.files import stacks_folder

# So much of files is sent at once; what arrived stays, whatever happens to the rest.
BATCH_BYTES = 4 << 20
MARKS = "customised"
BROUGHT = ("new", "changed", "overwritten")
STATES = (*BROUGHT, "kept", "removed")
REASONS = (
    customise.CHANGED,
    customise.BEFORE,
    customise.GONE,
    customise.IN_THE_WAY,
)
# A program waits for another run to end, and a machine may be slow.
SLACK_SECONDS = 120.0
SHOWN_LINES, SHOWN_KEPT = 20, 10


@dataclass(frozen=True)
class How:
    """Only say what would be done; run `first-boot` once more; put files over what was changed on the desktop."""

    dry_run: bool = False
    again: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class FileState:
    """A file of the home: new, changed, kept (and why), overwritten (its backup lies beside) or removed."""

    path: str
    state: str
    reason: str


@dataclass(frozen=True)
class ScriptState:
    """A script, whose it is, and whether it ran, is due (dry run) or was done before."""

    script: str
    of: str
    state: str


@dataclass(frozen=True)
class Report:
    """The report of what became of a desktop."""

    desktop: str
    unchanged: int
    files: tuple[FileState, ...]
    environment: str
    scripts: tuple[ScriptState, ...]


def wanted(declared: Declared, desktop: str | None = None) -> dict[str, Customisation]:
    """Read what customises each desktop (or the one that is named); raises `ConfigError` for what no desktop may have.

    Desktops that nothing customises are left out, unless they may still have something that this machine brought.
    """
    read: dict[Customise, Layer] = {}

    def layer(source: Customise | None) -> Layer | None:
        if source is not None and source not in read:
            read[source] = customise_source.read(source, stacks_folder())
        return None if source is None else read[source]

    found: dict[str, Customisation] = {}
    for machine in declared.workspace.desktops:
        if desktop is not None and machine.name != desktop:
            continue
        desired = laid_over(layer(declared.workspace.customise), layer(machine.customise), f"desktop {machine.name}")
        desired = replace(desired, recording=declared.plan.reached(machine.name).recording)
        if desired.is_empty and machine.name != desktop and not _mark(declared.plan, machine.name).exists():
            continue
        _check_whole(desired, machine.name)
        found[machine.name] = desired
    return found


def apply(plan: WorkspacePlan, desired: Mapping[str, Customisation], how: How) -> dict[str, Report]:
    """Bring every desktop in step; one that fails keeps no other from it, and its failure is raised at the end."""
    return at_once(
        {desktop: partial(_apply, plan, desktop, customisation_, how) for desktop, customisation_ in desired.items()}
    )


def note(plan: WorkspacePlan, desktop: str) -> None:
    """A desktop may have something that this machine brought: it is asked from then on."""
    leave_mark(_mark(plan, desktop))


def forget(site: str, workspace: str, desktop: str) -> None:
    """The machine that had what was brought is gone, with all its data."""
    (places().workspace(site, workspace) / MARKS / desktop).unlink(missing_ok=True)


def _apply(plan: WorkspacePlan, desktop: str, desired: Customisation, how: How) -> Report:
    try:
        return _bring(plan, desktop, desired, how)
    except (SiteError, CommandError) as error:
        say(f"    {desktop}: it is not customised as a whole: {error.reason.splitlines()[0]}")
        raise


def _bring(plan: WorkspacePlan, desktop: str, desired: Customisation, how: How) -> Report:
    mark = _mark(plan, desktop)
    if not how.dry_run and not desired.is_empty:
        note(plan, desktop)
    about = {"account": AGENT, "state": customisation.STATE, "overwrite": how.overwrite}
    marks = {path: file.mark for path, file in desired.files.items()}
    begin = {**about, "do": "begin", "dry": how.dry_run, "files": marks, "system": desired.system_files()}
    answer = program.ask(plan, desktop, customise, begin)
    states = _states(answer)
    if not how.dry_run:
        due = [path for path, state in states.items() if state.state in BROUGHT and path in desired.files]
        for number, batch in enumerate(_batches(due, desired)):
            if number:
                say(f"    {desktop}: more files ({number * BATCH_BYTES >> 20} MiB sent)")
            files = {path: _sent(path, desired) for path in batch}
            reply = program.ask(plan, desktop, customise, {**about, "do": "bring", "files": files})
            states |= _states(reply)
    unchanged = len(desired.files) - len([path for path in states if path in desired.files])
    environment = str(answer.get("environment"))
    environment = environment if environment in ("changed", "removed") else "unchanged"
    _tell(desktop, states, environment)
    scripts = tuple(_scripts(plan, desktop, desired, how, answer.get("done")))
    if not how.dry_run and desired.is_empty:
        mark.unlink(missing_ok=True)
    return Report(desktop, unchanged, tuple(states[path] for path in sorted(states)), environment, scripts)


def _scripts(plan: WorkspacePlan, desktop: str, desired: Customisation, how: How, done: Any) -> Iterator[ScriptState]:
    """Run what is due, one after the other; the first that fails ends it."""
    finished = {str(title) for title in done[:MAX_FILES]} if isinstance(done, list) else set()
    for script in desired.scripts:
        if script.name == FIRST_BOOT and script.title in finished and not how.again:
            yield ScriptState(script.name, script.of, "done")
            continue
        if not how.dry_run:
            once = script.name == FIRST_BOOT and not how.again
            _run(plan, desktop, desired, script, once)
        yield ScriptState(script.name, script.of, "due" if how.dry_run else "ran")


def _run(plan: WorkspacePlan, desktop: str, desired: Customisation, script: Script, once: bool) -> None:
    say(f"    {desktop}: {script.name} of the {script.of} runs, for at most {script.seconds} s")
    request = {
        "account": AGENT,
        "state": customisation.STATE,
        "script": script.title,
        "text": script.text,
        "once": once,
        "run": secrets.token_hex(16),
        "seconds": script.seconds,
        "environment": dict(desired.environment),
    }
    seconds = script.seconds + SLACK_SECONDS
    answer = program.ask(plan, desktop, script_program, request, run_seconds=seconds)
    if answer.get("code") == 0 and answer.get("in_time"):
        return
    why = f"ended with code {answer.get('code')!s:.10}" if answer.get("in_time") else f"ran for over {script.seconds} s"
    said = "\n".join(
        printable(line, most=customisation.MAX_PATH)
        for line in str(answer.get("output", "")).splitlines()[-SHOWN_LINES:]
    )
    log = f"{customisation.STATE}/scripts/{script.title}.log"
    remedy = f"mend it (all it said is in {log} there), then ./inv desktop.customise {plan.name}/{desktop}"
    raise SiteError(f"{script.name} of the {script.of}", f"{plan.name}/{desktop}", f"{why}\n{said}".strip(), remedy)


def _states(answer: Mapping[str, Any]) -> dict[str, FileState]:
    """The states as far as they are such: a desktop may answer what it likes."""
    files = answer.get("files")
    pairs = list(files.items())[: 2 * MAX_FILES] if isinstance(files, dict) else []
    found: dict[str, FileState] = {}
    for path, reply in pairs:
        state, reason = (str(reply[0]), str(reply[1])) if isinstance(reply, list) and len(reply) == 2 else ("", "")
        if state in STATES and len(path) <= customisation.MAX_PATH:
            found[path] = FileState(printable(path, most=None), state, reason if reason in REASONS else "")
    return found


def _sent(path: str, desired: Customisation) -> dict[str, Any]:
    file = desired.files[path]
    content = base64.b64encode(file.content).decode()
    return {"mark": file.mark, "mode": customisation.mode(path, file.executable), "content": content}


def _batches(paths: Sequence[str], desired: Customisation) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        more = len(desired.files[path].content)
        if batch and size + more > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += more
    if batch:
        yield batch


def _tell(desktop: str, states: Mapping[str, FileState], environment: str) -> None:
    counts = Counter(state.state for state in states.values())
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    if environment != "unchanged":
        parts.append(f"environment {environment}")
    say(f"    {desktop}: {', '.join(parts) or 'nothing to change'}")
    kept = [state for state in states.values() if state.state in ("kept", "overwritten")]
    for file in kept[:SHOWN_KEPT]:
        say(f"    {desktop}: {file.state} {file.path}: {file.reason}")
    if len(kept) > SHOWN_KEPT:
        say(f"    {desktop}: and {len(kept) - SHOWN_KEPT} more, see ./inv desktop.customise --dry-run")


def _check_whole(desired: Customisation, desktop: str) -> None:
    if len(desired.files) > MAX_FILES:
        reason = f"gets more than {MAX_FILES} files from its workspace and its own folder"
        raise ConfigError("customise", desktop, reason, "put them into an image of your own (docs/images.md)")


def _mark(plan: WorkspacePlan, desktop: str) -> Path:
    """There if the desktop may have something that this machine brought."""
    return places().workspace(plan.site, plan.name) / MARKS / desktop
