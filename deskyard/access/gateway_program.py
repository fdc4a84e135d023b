"""Asks the program inside a workspace's gateway, over SSH."""

import getpass
import json
import re
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.ssh_link import GATEWAY, SshLink

ASK_SECONDS = 120.0


def require(name: str) -> WorkspacePlan:
    """The Plan of a workspace whose gateway can be asked; raises an error that says what to do if it is down."""
    plan = declaration.read(name).plan
    running.require_running(plan)
    return plan


def ask(plan: WorkspacePlan, arguments: list[str]) -> Any:
    """What `deskyard-gateway` answers; its own errors are raised as `ConfigError`."""
    ssh = SshLink(plan.site, plan.name)
    answer = ssh.run(GATEWAY, ["sudo", "deskyard-gateway", *arguments], timeout=ASK_SECONDS, check=False)
    try:
        document = json.loads(answer.stdout)
    except ValueError as error:
        tail = answer.stderr.strip()[-500:]
        reason = f"did not answer ({answer.code}): {tail}"
        raise SiteError("gateway", plan.name, reason, f"see ./inv workspace.status {plan.name}") from error
    if isinstance(document, dict) and "error" in document:
        refused = document["error"]
        raise ConfigError(refused["field"], refused["value"] or None, refused["reason"], refused["remedy"])
    return document


def actor() -> str:
    """Who asks, for the gateway's records."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())[:32]
