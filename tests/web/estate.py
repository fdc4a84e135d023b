"""What the stand-in of Mission Control's API has in memory, and who hears of its changes."""

import asyncio
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Thing = dict[str, Any]
HOOK = "https://hooks.example.org/deskyard"
STATES = ("ready", "ready", "ready", "ready", "stopped", "booting", "error")
TIERS = (
    {"name": "free", "vcpus": 1, "memoryGib": 2, "diskGib": 20, "homeGib": 10},
    {"name": "pro", "vcpus": 4, "memoryGib": 8, "diskGib": 60, "homeGib": 20},
)


def ago(**span: float) -> str:
    """A moment of the past, as the API writes it."""
    return (datetime.now(UTC) - timedelta(**span)).isoformat().replace("+00:00", "Z")


def desktop(workspace: str, name: str, **known: Any) -> Thing:
    """A desktop as the API shows it."""
    return {
        "id": f"{workspace}.{name}",
        "name": name,
        "workspaceId": workspace,
        "tier": "free",
        "image": "agent",
        "address": "10.80.0.10",
        "state": "ready",
        "stateAt": ago(minutes=42),
        "detail": "",
        "wanted": "running",
        "routes": ["desktop", "terminal"],
        "agent": "openclaw",
        "imageNow": "agent-0123456789abcdef",
        "upgradeTo": None,
        "operation": None,
        "generation": 1,
        "lastChatAt": None,
        "frozenAt": None,
        "session": None,
        "lifetime": "kept",
        "until": None,
        "machine": None,
        **known,
    }


def workspace(name: str, **known: Any) -> Thing:
    """A workspace as the API shows it."""
    return {
        "id": name,
        "name": name,
        "site": "local",
        "url": f"https://{name}.deskyard.localhost:9444",
        "state": "ready",
        "egress": "locked",
        "egressAllow": ["pypi.org", "*.debian.org", "registry.npmjs.org"],
        "image": "agent",
        "tiers": list(TIERS),
        "keys": ["anthropic", "github"],
        "desktops": 0,
        "problem": None,
        "seenAt": ago(seconds=20),
        "silence": "",
        "silentSince": None,
        "unseenSince": None,
        "unseenWhy": "",
        **known,
    }


def tool(name: str, **known: Any) -> Thing:
    """A tool that an agent used, as the API shows it."""
    fresh: Thing = {"id": name, "name": name, "state": "done", "startedAt": ago(seconds=65), "endedAt": ago()}
    fresh |= {"arguments": "", "argumentsCut": False, "output": "", "outputCut": False}
    return {**fresh, **known}


def measured(desktop_id: str, name: str, sent: int, received: int, connections: int = 1) -> Thing:
    """What a gateway counted, as usage shows it by desktop."""
    found: Thing = {"workspaceId": desktop_id.partition(".")[0], "desktopId": desktop_id, "day": None, "name": name}
    return found | {"connections": connections, "sent": sent, "received": received}


def moment(kind: str, what: str, **known: Any) -> Thing:
    """A moment of a desktop's timeline that is kept: its gateway wrote it down, or a rule found it."""
    fresh: Thing = {
        "kind": kind,
        "at": ago(minutes=5),
        "what": what,
        "actor": "",
        "detail": "",
        "state": "",
        "times": 1,
    }
    return {"id": f"{kind}:{what}", "subject": what, **fresh, **known}


def reading(workspace_id: str, read_at: str | None = None, problem: Thing | None = None) -> Thing:
    """As of when the counts of a gateway are known."""
    return {"workspaceId": workspace_id, "readAt": read_at, "problem": problem}


def hook(id: str, url: str) -> Thing:
    """Somebody who is told of alerts."""
    return {"id": id, "url": url, "actor": "person:Ada", "createdAt": ago(days=1)}


@dataclass
class Estate:
    """Everything by its id, the events so far, and a queue for each browser that listens."""

    desktops: dict[str, Thing] = field(default_factory=dict)
    workspaces: dict[str, Thing] = field(default_factory=dict)
    operations: dict[str, Thing] = field(default_factory=dict)
    conversations: dict[str, Thing] = field(default_factory=dict)
    messages: dict[str, Thing] = field(default_factory=dict)
    approvals: dict[str, Thing] = field(default_factory=dict)
    alerts: dict[str, Thing] = field(default_factory=dict)
    # What people know the declared provider by, and how many passkeys its person has.
    provider: str | None = None
    passkeys: int = 0
    # Of whoever is signed in.
    role: str = "admin"
    # Up to whom Ada gives by the web, and the workspace whose rule of approvals bounds that.
    gives: str = "operator"
    ruled: str | None = None
    # Another key than the page's, to which links are sealed.
    sealed_to: str | None = None
    kept: dict[str | None, int | None] = field(default_factory=lambda: {None: 90})
    measured: list[Thing] = field(default_factory=list)
    measured_left_out: int = 0
    readings: list[Thing] = field(default_factory=list)
    # How far a session is as soon as it is asked for.
    opens: str = "done"
    # How an answer to what waits for another person ends.
    decides: Thing = field(default_factory=lambda: {"state": "done"})
    # Millionths of an hour of the tier that has a price.
    price: int = 250_000
    # Whether operations do not stop by themselves, and may be ended by force.
    is_stuck: bool = False
    # By desktop, and as of when they are known.
    moments: dict[str, list[Thing]] = field(default_factory=dict)
    moments_read_at: str | None = None
    # What was said of the alert that the page lists, who is told of alerts, and what was revoked or ended.
    said_of_alert: Thing = field(default_factory=dict)
    hooks: list[Thing] = field(default_factory=lambda: [hook("wh-1", HOOK), hook("wh-2", "mailto:ann@example.org")])
    revoked_at: str | None = None
    # Whether there is a key that nobody made on the page; keys and persons that were, and who was removed.
    has_key: bool = True
    made_keys: list[Thing] = field(default_factory=list)
    invited: list[Thing] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    # What is wrong with the audit, if anything is.
    audit_problem: str | None = None
    # Of each quota, rule of alerts and price.
    changed_at: str = field(default_factory=lambda: ago(days=2))
    logs: dict[str, list[Thing]] = field(default_factory=dict)
    events: list[tuple[int, str, Thing]] = field(default_factory=list)
    listeners: set["asyncio.Queue[tuple[int, str, Thing] | None]"] = field(default_factory=set)
    loop: asyncio.AbstractEventLoop | None = None
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def anew(self) -> "Estate":
        """An empty estate in this one's place, for those who listen to it."""
        return Estate(loop=self.loop, listeners=self.listeners, numbers=self.numbers)

    def fill(self, workspaces: int, desktops: int) -> None:
        """A fleet of so many desktops in each of so many workspaces, in all states."""
        for number in range(workspaces):
            name = f"team-{number + 1:02}"
            self.workspaces[name] = workspace(name, desktops=desktops)
            for index in range(desktops):
                state = STATES[(number + index) % len(STATES)]
                found = desktop(name, f"desk-{index + 1}", state=state, tier=TIERS[index % 2]["name"])
                self.desktops[found["id"]] = {**found, "address": f"10.80.{number}.{index % 250 + 2}"}

    def tell(self, event: str, data: Thing) -> None:
        """Send an event to all who listen; from any thread."""
        entry = (next(self.numbers), event, data)
        self.events.append(entry)
        self._send(entry)

    def hang_up(self) -> None:
        """End the stream of events for all who listen, as a restart does."""
        self._send(None)

    def change(self, desktop_id: str, **news: Any) -> None:
        """Change a desktop, and tell."""
        known = self.desktops[desktop_id]
        self.desktops[desktop_id] = {**known, "stateAt": ago(), "generation": known["generation"] + 1, **news}
        self.tell("desktop", self.desktops[desktop_id])

    def change_workspace(self, name: str, **news: Any) -> None:
        """Change a workspace, and tell."""
        self.workspaces[name] |= news
        self.tell("workspace", self.workspaces[name])

    def operation(self, kind: str, workspace_id: str | None, desktop_id: str | None = None, **known: Any) -> Thing:
        """A new operation, queued, as all are told."""
        found = {
            "id": f"op-{next(self.numbers)}",
            "kind": kind,
            "workspaceId": workspace_id,
            "desktopId": desktop_id,
            "state": "queued",
            "actor": "person:Ada",
            "createdAt": ago(),
            "startedAt": None,
            "endedAt": None,
            "cancelRequestedAt": None,
            "forceFrom": None,
            "attempt": 1,
            "position": 1,
            "why": None,
            "progress": None,
            "result": None,
            "problem": None,
            "consent": None,
            **known,
        }
        self.operations[found["id"]] = found
        self.logs[found["id"]] = []
        self._show(found)
        return found

    def advance(self, operation_id: str, **news: Any) -> None:
        """Change an operation, and tell; its desktop shows it until it is over."""
        found = self.operations[operation_id] = {**self.operations[operation_id], "position": None, **news}
        self._show(found)

    def log(self, operation_id: str, line: str) -> None:
        """Add a line to the log of an operation that runs, and tell that alone, as the web process does."""
        if self.operations[operation_id]["state"] != "running":
            self.advance(operation_id, state="running")
        self.operations[operation_id]["progress"] = line
        entry = {"number": len(self.logs[operation_id]) + 1, "at": ago(), "line": line}
        self.logs[operation_id].append(entry)
        self.tell("operation.log", {"operationId": operation_id, **entry})

    def message(self, conversation_id: str, role: str, text: str, **known: Any) -> Thing:
        """A message of a conversation, as all are told."""
        found = {
            "id": f"message-{next(self.numbers)}",
            "conversationId": conversation_id,
            "role": role,
            "author": "person:Ada" if role == "person" else "agent:team-01.desk-1",
            "text": text,
            "state": "done",
            "at": ago(),
            "operationId": None,
            "problem": None,
            "tools": [],
            "moreTools": 0,
            "questions": [],
            "claimed": None,
            **known,
        }
        self.messages[found["id"]] = found
        self.tell("message", found)
        return found

    def write(self, message_id: str, **news: Any) -> None:
        """Change a message, and tell."""
        self.messages[message_id] = {**self.messages[message_id], **news}
        self.tell("message", self.messages[message_id])

    def approval(self, desktop_id: str, name: str, **known: Any) -> Thing:
        """A connection that waits for a person, as all are told; `id` changes one."""
        workspace_id = desktop_id.partition(".")[0]
        id = known.pop("id", None) or f"{workspace_id}.{next(self.numbers):06x}"
        fresh: Thing = {
            "id": id,
            "workspaceId": workspace_id,
            "desktopId": desktop_id,
            "name": name,
            "port": 443,
            "state": "waiting",
            "strength": "gateway",
            "tries": 1,
            "held": 1,
            "heldUntil": ago(seconds=-80),
            "since": ago(seconds=10),
            "until": ago(hours=-24),
            "lastAt": ago(seconds=10),
            "answer": None,
            "decidedBy": None,
            "reason": "",
            "decidedAt": None,
            "endsAt": None,
            "needed": 1,
            "answers": [],
        }
        self.approvals[id] = {**fresh, **self.approvals.get(id, {}), **known}
        self.tell("approval", self.approvals[id])
        return self.approvals[id]

    def alert(self, object: str, **known: Any) -> Thing:
        """An alert, as all are told; `id` changes one."""
        id = known.pop("id", None) or f"al_{next(self.numbers)}"
        workspace_id = object.split()[-1].partition(".")[0]
        fresh: Thing = {
            "id": id,
            "rule": "desktop.unwell",
            "title": "A machine is not well",
            "object": object,
            "workspaceId": workspace_id,
            "text": "its disk has 3 % left",
            "number": 1,
            "unit": "findings",
            "nextStep": "./inv workspace.health",
            "openedAt": ago(),
            "closedAt": None,
            "acknowledgedAt": None,
            "acknowledgedBy": None,
            "silencedUntil": None,
        }
        self.alerts[id] = {**fresh, **self.alerts.get(id, {}), **known}
        self.tell("alert", self.alerts[id])
        return self.alerts[id]

    def _send(self, entry: tuple[int, str, Thing] | None) -> None:
        def put() -> None:
            for queue in self.listeners:
                queue.put_nowait(entry)

        if self.loop:
            self.loop.call_soon_threadsafe(put)

    def _show(self, operation: Thing) -> None:
        self.tell("operation", operation)
        over = operation["state"] in ("done", "failed", "cancelled")
        if operation["desktopId"] in self.desktops:
            self.desktops[operation["desktopId"]]["operation"] = None if over else operation
            self.tell("desktop", self.desktops[operation["desktopId"]])
