"""E2B's names for our things: sandboxes are desktops, templates say which workspace and tier a new one is of."""

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass

from deskyard_sdk import DesktopError

# What E2B's packages ask for when nobody names a template.
PLAIN = ("base", "desktop")
LABEL = r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?"
BETWEEN = re.compile(rf"({LABEL})--({LABEL})")
COUNTED = re.compile(r"([1-9][0-9]?)-([a-z0-9-]+)")
# Of a desktop for a task: the next at its seat is another sandbox.
NUMBERED = re.compile(r"0([0-9a-f]{1,40})-(.+)")
# Without a domain a client would make up host names that lead to E2B; this one leads nowhere.
NOWHERE = "deskyard.invalid"
NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
DOMAIN = re.compile(rf"(?:{NAME}\.)+{NAME}(?::[1-9][0-9]{{0,4}})?")
TEMPLATE = re.compile(rf"({LABEL})(?:/([A-Za-z0-9_.-]{{1,40}}))?")


def sandbox_id(workspace: str, desktop: str) -> str:
    """How a desktop is called as a sandbox: letters, digits and hyphens, as a host name may have them.

    `WORKSPACE--DESKTOP`; a workspace whose own name has `--` is counted instead: `9-my--place-DESKTOP`.
    """
    if "--" in workspace:
        return f"{len(workspace)}-{workspace}-{desktop}"
    return f"{workspace}--{desktop}"


def desktop_id(sandbox: str) -> str | None:
    """The desktop that a sandbox is, `WORKSPACE.DESKTOP`; None for what is no such name."""
    workspace, desktop = "", ""
    sandbox = match[2] if (match := NUMBERED.fullmatch(sandbox)) else sandbox
    if match := COUNTED.fullmatch(sandbox):
        length = int(match[1])
        workspace, desktop = match[2][:length], match[2][length + 1 :]
    elif "--" in sandbox:
        workspace, _, desktop = sandbox.partition("--")
    if not (re.fullmatch(LABEL, workspace) and re.fullmatch(LABEL, desktop)):
        return None
    # Each desktop has one name here: what would be read as another's is none.
    return f"{workspace}.{desktop}" if sandbox_id(workspace, desktop) == sandbox else None


def machine_of(sandbox: str) -> str | None:
    """The machine that a sandbox is, if it is a desktop for a task."""
    match = NUMBERED.fullmatch(sandbox)
    return match[1] if match else None


def sandbox_of(desktop: str, machine: str | None = None) -> str:
    """The same the other way: of `WORKSPACE.DESKTOP`, and the machine of one for a task."""
    workspace, _, name = desktop.partition(".")
    id = sandbox_id(workspace, name)
    return id if machine is None else f"0{machine}-{id}"


def fresh_name(owner: bytes, idempotency: str | None) -> str:
    """The name of a new desktop; of the same key's same `Idempotency-Key` always the same."""
    if idempotency is None:
        return f"e2b-{secrets.token_hex(8)}"
    return f"e2b-{hashlib.sha256(owner + idempotency.encode()).hexdigest()[:16]}"


def port_and_sandbox(host: str, domain: str) -> tuple[str, str] | None:
    """The port and the sandbox that a host name below the domain means (`PORT-SANDBOX.DOMAIN`); None for another."""
    name, suffix = host.lower().partition(":")[0], f".{domain.partition(':')[0]}"
    port, _, sandbox = name.removesuffix(suffix).partition("-")
    return (port, sandbox) if name.endswith(suffix) and port.isdecimal() and sandbox else None


@dataclass(frozen=True)
class Choice:
    """The workspace, tier and image of a new desktop, where its template does not say.

    With `task_seconds` it is a desktop for a task, which goes after so long at the latest.
    """

    workspace: str | None = None
    tier: str = "free"
    image: str | None = None
    task_seconds: int | None = None


def chosen(template: str, default: Choice, workspaces: Collection[str]) -> tuple[str, str]:
    """The workspace and tier that a template means; raises `DesktopError` with the names that there are."""
    match = TEMPLATE.fullmatch(template)
    if match and match[1] in workspaces:
        return match[1], match[2] or default.tier
    names = ", ".join(sorted(workspaces)) or "none that this key sees"
    if template not in PLAIN:
        remedy = f"give {' or '.join(PLAIN)}, or WORKSPACE or WORKSPACE/TIER; workspaces: {names}"
        raise DesktopError("template", template, "is none", remedy, 404)
    workspace = default.workspace or (next(iter(workspaces)) if len(workspaces) == 1 else None)
    if workspace is None:
        reason = "names no workspace, and none is the default here"
        raise DesktopError("template", template, reason, f"give a workspace as the template: {names}", 400)
    if workspace not in workspaces:
        remedy = f"give another workspace as the template: {names}"
        raise DesktopError("template", template, f"means the workspace '{workspace}', which is not seen", remedy, 404)
    return workspace, default.tier
