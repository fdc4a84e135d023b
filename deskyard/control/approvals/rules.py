"""Rules of approvals: who answers for a workspace, how many have to, and never whoever asked.

The web process says early what a rule refuses; the worker, which it cannot stand in for, decides by the same words.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import ConfigError

SET, REMOVE = "approval-rule.set", "approval-rule.remove"
# An agent may go on by itself after its turn, and whoever has a link may use it for as long.
TURN_LASTS, LINK_LASTS = "1 hour", "12 hours"
# Another person's answer, or signature under a change of a rule, counts with one that is not older.
WAITS = "24 hours"
REMEDY = "let somebody answer whom GET /api/approval-rules names; an admin changes the rule"

RULE = "select workspace_id, persons, roles, people, keys, operations from approval_rule where workspace_id = %s"
CHANGES = f"""select workspace_id, actor, wanted, at from approval_rule_change where workspace_id = any(%s)
    and recent(at, '{WAITS}') order by at, actor"""
ROLE = """select role from person where name = %s and disabled_at is null
    and (workspaces is null or %s = any(workspaces))"""
# Of a ticket: who had given its desktop's agent something to do, or a link to use it.
ASKERS = f"""select distinct coalesce(o.asker, o.actor) as actor
    from approval a join operation o on o.desktop_id = a.desktop_id
    where a.id = %s and o.created_at <= a.last_at and (
      (o.kind = 'desktop.chat' and o.started_at is not null
        and (o.ended_at is null or o.ended_at >= a.since - interval '{TURN_LASTS}'))
      or (o.kind = 'desktop.session' and o.state = 'done' and o.input ->> 'mode' is distinct from 'view'
        and o.created_at >= a.since - interval '{LINK_LASTS}'))"""


@dataclass(frozen=True)
class Rule:
    """The rule of a workspace; with no role, person or key it is for everybody who may answer at all.

    `operations` are kinds of which each waits until others than its asker agree.
    """

    workspace: str
    persons: int
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    @classmethod
    def of(cls, workspace: str, values: Mapping[str, Any]) -> "Rule":
        """The rule of a row, or of what an operation is given."""
        # What an earlier release wrote down knows of no operations.
        lists = (values["roles"], values["people"], values["keys"], values.get("operations") or ())
        return cls(workspace, int(values["persons"]), *(tuple(sorted(set(map(str, each)))) for each in lists))

    def values(self) -> dict[str, Any]:
        """The values that `of` makes the rule of again."""
        names = {"roles": self.roles, "people": self.people, "keys": self.keys, "operations": self.operations}
        return {"persons": self.persons, **names}

    @property
    def target(self) -> str:
        """All of it in the one line that an admin signs and the worker compares."""
        lists = [("roles", self.roles), ("people", self.people), ("keys", self.keys)]
        if self.operations:
            lists.append(("operations", self.operations))
        parts = [f"{name}={json.dumps(each, separators=(',', ':'), ensure_ascii=False)}" for name, each in lists]
        return " ".join([self.workspace, f"persons={self.persons}", *parts])

    def refusal(self, actor: str, role: str | None, askers: Collection[str], answer: str) -> str | None:
        """Why somebody may not give an answer; None if they may. `role` is a person's."""
        kind, _, name = actor.partition(":")
        if kind != "person" and self.persons > 1:
            return f"is a key, and {self.persons} persons have to answer"
        by_name = name in self.people if kind == "person" else name.rpartition(":")[2] in self.keys
        if (self.roles or self.people or self.keys) and not (by_name or role in self.roles):
            return f"is not among those who answer for {self.workspace}"
        # To refuse opens nothing: whoever asked may take it back.
        if answer != "refuse" and actor in askers:
            return "gave the desktop its task or uses it: whoever asked does not answer"
        return None

    def needs(self, answer: str) -> int:
        """How many have to say the same; one is enough to refuse."""
        return 1 if answer == "refuse" else self.persons


def refused(actor: str, reason: str) -> ConfigError:
    """The error that tells a refusal."""
    return ConfigError("decider", actor, reason, REMEDY)


def wanted_by(row: Mapping[str, Any]) -> Rule | None:
    """The rule that an admin signed and that waits for another; None to have none any more."""
    return None if row["wanted"] is None else Rule.of(row["workspace_id"], row["wanted"])
