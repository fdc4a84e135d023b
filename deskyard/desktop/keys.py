"""Sets an owner's keys, and shows which desktop has which. Values are never shown."""

import hashlib
import hmac
import re
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from deskyard.declaration import declaration
from deskyard.desktop import key_delivery, program
from deskyard.engine import running, stack_secrets
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError
from deskyard.guest import keys
from deskyard.model.base import DNS_LABEL
from deskyard.plan import key_file
from deskyard.site.management_key import private_key_file

FINGERPRINT_DIGITS = 12
MAX_LINES = 256
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")


def set_key(name: str, key: str, value: str) -> dict[str, Any]:
    """Encrypt a key into the stack file of workspace `name`; desktops get it at the next `up`."""
    declared = declaration.read_workspace(name)
    if not re.match(DNS_LABEL, key):
        raise ConfigError("key", None, "has a name that is no DNS label", "choose a name such as 'anthropic'")
    stack_secrets.write_key(WorkspaceStack(name), key, value)
    desktops = [desktop.name for desktop in declared.desktops if key in declared.keys_of(desktop)]
    return {"workspace": name, "key": key, "fingerprint": _fingerprint(declared.site, key, value), "desktops": desktops}


def known(name: str) -> list[dict[str, Any]]:
    """The keys of workspace `name` by name and fingerprint, and which desktops get each; no desktop is asked."""
    workspace = declaration.read_workspace(name)
    getting = {desktop.name: workspace.keys_of(desktop) for desktop in workspace.desktops}
    names = sorted({key for keys in getting.values() for key in keys})
    values = stack_secrets.read_keys(WorkspaceStack(name), names)
    return [
        {
            "name": key,
            "fingerprint": _fingerprint(workspace.site, key, values[key]),
            "desktops": [desktop for desktop, keys in getting.items() if key in keys],
        }
        for key in names
    ]


def listing(target: str) -> dict[str, Any]:
    """The keys of WORKSPACE/DESKTOP by name and fingerprint, and whether the desktop has what it shall have."""
    name, _, desktop = target.partition("/")
    if not desktop:
        raise ConfigError("desktop", target, "names no desktop", "write WORKSPACE/DESKTOP")
    declared = declaration.read(name)
    plan = declared.plan
    plan.desktop(desktop)
    running.require_running(plan)
    names = next(
        declared.workspace.keys_of(machine) for machine in declared.workspace.desktops if machine.name == desktop
    )
    values = stack_secrets.read_keys(WorkspaceStack(name), names)
    nonce = secrets.token_hex(32)
    asked = key_delivery.request(nonce=nonce)
    answer = program.ask(plan, desktop, keys, asked, hidden=set(values.values()), reach_seconds=0)
    has = _codes(answer)
    rows: list[dict[str, str | None]] = [
        {
            "name": key,
            "variable": key_file.variable(key),
            "fingerprint": _fingerprint(plan.site, key, values[key]),
            "state": _state(has.pop(key_file.variable(key), None), _code(nonce, key_file.line(key, values[key]))),
        }
        for key in names
    ]
    rows += [
        {"name": key_file.key_name(variable), "variable": variable, "fingerprint": None, "state": "left over"}
        for variable in has
    ]
    guarded = bool(answer.get("guarded")) or not answer.get("exists")
    in_step = guarded and all(row["state"] == "in step" for row in rows)
    return {
        "workspace": name,
        "desktop": desktop,
        "file": key_file.PATH,
        "guarded": guarded,
        "in_step": in_step,
        "keys": rows,
    }


def _state(found: str | None, expected: str) -> str:
    if found is None:
        return "missing"
    return "in step" if hmac.compare_digest(found, expected) else "changed"


def _codes(answer: dict[str, Any]) -> dict[str, str]:
    """Variable -> code, as far as they are such: a desktop may answer what it likes."""
    lines = answer.get("lines")
    pairs = [line for line in lines[:MAX_LINES] if isinstance(line, list)] if isinstance(lines, list) else []
    stated = [(str(pair[0]), str(pair[1])) for pair in pairs if len(pair) == 2]
    return {variable: code for variable, code in stated if VARIABLE.match(variable) and code.isascii()}


def _code(nonce: str, line: str) -> str:
    return hmac.new(nonce.encode(), line.strip("\n").encode(), hashlib.sha256).hexdigest()


def _fingerprint(site: str, name: str, value: str) -> str:
    """Short and keyed: without the site's own key nobody finds the value by trying, however short it is."""
    secret = HKDF(hashes.SHA256(), 32, salt=None, info=b"deskyard fingerprints of keys").derive(
        private_key_file(site).read_bytes()
    )
    return hmac.new(secret, f"{name}\0{value}".encode(), hashlib.sha256).hexdigest()[:FINGERPRINT_DIGITS]
