"""Closes names at a gateway while a budget is spent, and reopens them: what a worker's child does, and what is kept."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link
from deskyard.errors import ConfigError

KIND = "egress.close"
REASON = "budget"


def job(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Have these names closed for the budget, and none besides; what people closed themselves stays closed."""
    from deskyard.access import egress

    name, names = wanted["workspace"], set(wanted["input"]["names"])
    state = egress.allowed(name)
    if names and state["egress"] != "locked":
        reason = f"is {state['egress']}, so no name can be closed"
        raise ConfigError("egress", name, reason, "declare egress: locked and bring the workspace up")
    closed = {row["entry"] for row in state.get("closed", []) if row["reason"] == REASON}
    # First what is to be closed: connections of before are ended once.
    if names - closed:
        egress.close(name, sorted(names - closed), REASON, wanted["actor"])
    if closed - names:
        egress.reopen(name, sorted(closed - names), REASON, wanted["actor"])
    return {"result": {"closed": sorted(names), "reopened": sorted(closed - names)}}


def keep(link: Link, held: Claim) -> None:
    """Write down what a gateway was told by an operation that was done."""
    if held.kind == KIND:
        query = """insert into closing (workspace_id, names) values (%s, %s) on conflict (workspace_id)
            do update set names = excluded.names, told_at = now()"""
        link.execute(query, [held.workspace, list(held.input["names"])])
