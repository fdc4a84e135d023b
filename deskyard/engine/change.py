"""Steps of Pulumi's engine, and which part of a workspace each of them touches."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deskyard.plan.warm import BOOTS

if TYPE_CHECKING:
    from pulumi.automation import events

RESOURCES = ("deskyard:libvirt:", "deskyard:proxmox:", "proxmoxve:")
VM = "proxmoxve:index/vmLegacy:VmLegacy"
# What holds a desktop's data: disks on libvirt, the machine with its disk and the volume of /home on a cluster.
DATA = frozenset({"deskyard:libvirt:Volume", "deskyard:proxmox:Home", VM})
MACHINES = frozenset({"deskyard:libvirt:Domain", VM})
DESKTOP, GATEWAY = "deskyard:workspace:Desktop", "deskyard:workspace:Gateway"
# What a component adds to its own name for each of its resources: "disk", "machine", "own-net0".
PART = re.compile(r"-(?:own-[a-z]+[0-9]+|[a-z]+)\Z")
GONE = frozenset({"delete", "replace", "delete-replaced", "create-replacement"})
VERBS = {"create": "creating", "update": "updating", "delete": "removing", "replace": "replacing"}
# What the provider's server adds to the text of an error.
TRACE = re.compile(r":\n\s+File \".*", re.DOTALL)
PREAMBLE = re.compile(r"^.*?(?:Unexpected <class '[\w.]+'>: |rpc error: code = \w+ desc = )", re.DOTALL)


@dataclass(frozen=True)
class Change:
    """A step that Pulumi plans or takes.

    The operation "forget" is ours: the state loses what is gone already.
    """

    operation: str
    type: str
    name: str
    urn: str
    # Properties that differ, with how: "add", "delete-replace", ...
    differences: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes_something(self) -> bool:
        """False for what stays as it is."""
        return self.operation != "same"

    @property
    def desktop(self) -> str | None:
        """The desktop whose component the resource belongs to, None for all else."""
        return desktop_of(self.urn)

    @property
    def owner(self) -> str:
        """Whose resource this is: `desktop NAME`, `gateway`, or `workspace` for what all of it share."""
        if self.desktop is not None:
            return f"desktop {self.desktop}"
        return "gateway" if GATEWAY in _components(self.urn) else "workspace"

    @property
    def is_disk(self) -> bool:
        """True if a desktop's data is in it."""
        return self.type in DATA and self.desktop is not None

    @property
    def is_machine(self) -> bool:
        """True if it is a desktop's machine."""
        return self.type in MACHINES and self.desktop is not None

    @property
    def loses_data(self) -> bool:
        """True if a desktop's disk goes away, or one of the disks of its machine."""
        taken = any(name.startswith("disks") and how.startswith("delete") for name, how in self.differences.items())
        return self.is_disk and (self.operation in GONE or taken)


def desktop_of(urn: str) -> str | None:
    """The desktop that a resource belongs to by the components above it; names alone may say anything.

    A URN is `urn:pulumi:STACK::PROJECT::COMPONENT$COMPONENT$TYPE::NAME`, and the stack has the workspace's name.
    """
    if DESKTOP not in _components(urn):
        return None
    stack, _, _, name = urn.split("::", 3)
    return PART.sub("", name.removeprefix(f"{stack.rpartition(':')[2]}-desktop-"))


def _components(urn: str) -> list[str]:
    return urn.split("::", 3)[2].split("$")[:-1]


@dataclass
class Watcher:
    """Collects the steps and the errors of one run of the engine; reports each step as a line for the user."""

    report: Callable[[str], None] | None = None
    changes: list[Change] = field(default_factory=list)
    looked_at: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def __call__(self, event: "events.EngineEvent") -> None:
        diagnostic = event.diagnostic_event
        if diagnostic is not None and diagnostic.severity == "error":
            self.failures.append(clean(diagnostic.message))
        after = event.res_outputs_event
        if after is not None and after.metadata.op == "create":
            self._started(after.metadata)
        before = event.resource_pre_event
        if before is not None and before.metadata.op == "refresh":
            self.looked_at[before.metadata.urn] = before.metadata.type
        elif before is not None and before.metadata.op != "read":
            self._step(before.metadata)

    def _started(self, metadata: "events.StepEventMetadata") -> None:
        """Read what the provider says of a desktop that it made to go on from a template."""
        outputs = metadata.new.outputs if metadata.new else None
        how = (outputs or {}).get("started")
        desktop = desktop_of(metadata.urn)
        if self.report and desktop is not None and isinstance(how, str) and how != BOOTS:
            self.report(f"    {desktop} {how}")

    def forgotten(self) -> list[Change]:
        """List what nobody declares any more and was not found: else there would be a step for it."""
        left = self.looked_at.keys() - {change.urn for change in self.changes}
        return [Change("forget", self.looked_at[urn], urn.rpartition("::")[2], urn) for urn in sorted(left)]

    def _step(self, metadata: "events.StepEventMetadata") -> None:
        name = metadata.urn.rpartition("::")[2]
        differences = {key: word(difference.diff_kind) for key, difference in (metadata.detailed_diff or {}).items()}
        change = Change(word(metadata.op), metadata.type, name, metadata.urn, differences)
        self.changes.append(change)
        if self.report and change.type.startswith(RESOURCES) and change.operation in VERBS:
            self.report(f"    {VERBS[change.operation]} {change.name}")


def word(value: object) -> str:
    """The text of one of the engine's own words."""
    return str(getattr(value, "value", value))


def clean(message: str) -> str:
    """An error of the engine without markup, preamble and trace; empty if it only says that something failed."""
    message = re.sub(r"<\{%\w+%\}>", "", message)
    if "one or more errors occurred" in message or message.strip() in ("update failed", "preview failed"):
        return ""
    return TRACE.sub("", PREAMBLE.sub("", message)).strip()
