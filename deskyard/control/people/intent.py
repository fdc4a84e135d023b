"""The intent of an operation, in the one form that is signed, shown and checked."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deskyard.errors import ConfigError

LIFE_SECONDS = 300
CREATE, DESTROY, END = "desktop.create", "desktop.destroy", "workspace.destroy"
# What takes data away, reveals it or opens the network; each needs a signature or the proof of a key.
SIGNED = {
    DESTROY: "Destroy desktop {target} and all its data, with no way back but a backup",
    "task.release": "End a desktop for a task, and lose all its data (desktop, machine): {target}",
    "desktop.session": "Open a desktop (desktop, how, for which key of a browser): {target}",
    CREATE: "Make a desktop that gets keys of its workspace (desktop, keys): {target}",
    "snapshot.restore": "Put a desktop back to a snapshot, and lose what changed since (desktop, snapshot): {target}",
    "desktop.upgrade": "Give desktops another system, and lose what their disks hold outside of /home: {target}",
    "workspace.create": "Make a workspace with a gateway and desktops: {target}",
    END: "Destroy a workspace and all data of its desktops, with no way back but a backup: {target}",
    "egress.allow": "Let the desktops of a workspace reach a name (workspace, name, how long): {target}",
    "approval.decide": "Answer what a desktop wants to reach (ticket, desktop, name, answer): {target}",
    "operation.decide": "Answer what somebody wants to do (answer, operation, what, who): {target}",
    "approval-rule.set": "Let these answer what desktops of a workspace want to reach: {target}",
    "approval-rule.remove": "Let everybody who may answer at all do so for workspace {target}",
    "retention.set": "Keep what is said with agents so long, and then delete it for good: {target}",
    "retention.remove": "Keep what is said with agents of workspace {target} as long as the site says",
    "key.create": "Make an API key (name, scopes, workspaces, days, for which key of a browser): {target}",
    "person.invite": "Let somebody enrol a passkey (name, role, workspaces, for which key of a browser): {target}",
    "person.remove": "End all passkeys, sessions and links of a person: {target}",
    "passkey.remove": "End a passkey of yours, with the sessions that it began (name, passkey): {target}",
}


def is_signed(kind: str, values: Mapping[str, Any]) -> bool:
    """Whether an operation has to be signed: a new desktop only where it gets keys."""
    return kind in SIGNED and (kind != CREATE or bool(values.get("keys")))


@dataclass(frozen=True)
class Intent:
    """A kind of operation on a target, once, until a Unix time; `nonce` makes each another."""

    kind: str
    target: str
    nonce: str
    expires_at: int

    @classmethod
    def parsed(cls, values: Any) -> "Intent":
        """The intent of a request; raises `ConfigError` for what is none."""
        try:
            return cls(str(values["kind"]), str(values["target"]), str(values["nonce"]), int(values["expires_at"]))
        except (TypeError, KeyError, ValueError) as error:
            remedy = "ask POST /api/intents for one, and send it back as it came"
            raise ConfigError("intent", None, "is no intent", remedy) from error

    @property
    def canonical(self) -> bytes:
        """The bytes that are signed: sorted keys, no spaces."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @property
    def challenge(self) -> bytes:
        """The challenge that a passkey signs."""
        return hashlib.sha256(b"deskyard intent\0" + self.canonical).digest()

    @property
    def text(self) -> str:
        """The text that a person reads before it is signed."""
        return SIGNED[self.kind].format(target=self.target)

    def require(self, kind: str, target: str, now: float) -> None:
        """Raise `ConfigError` unless it is for this, now by the clock of the database."""
        if (self.kind, self.target) != (kind, target):
            remedy = "sign the intent of this very operation"
            raise ConfigError("intent", f"{self.kind} {self.target}", f"is not for {kind} {target}", remedy)
        left = self.expires_at - now
        if not 0 < left <= LIFE_SECONDS:
            raise ConfigError("intent", self.expires_at, "is over, or ends too late", "ask for a new one, and sign it")

    def as_dict(self) -> dict[str, Any]:
        """It, for JSON."""
        return asdict(self)
