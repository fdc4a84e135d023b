"""Mission Control for asyncio: what there is, what is wanted of it, and what came of that."""

import asyncio
import json
import math
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import httpx

from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.door import Transport
from deskyard_sdk.errors import DesktopError, refusal, unreachable
from deskyard_sdk.lines import lines
from deskyard_sdk.mission.forms import (
    Alert,
    Approval,
    ApprovalIs,
    Conversation,
    DesktopIs,
    DesktopState,
    Fleet,
    LogLine,
    Message,
    Moment,
    MomentKind,
    News,
    Operation,
    OperationIs,
    Question,
    Seat,
    Sent,
    Workspace,
)

API = "/api"
ENDED = ("done", "failed", "cancelled")
Mode = Literal["drive", "view", "agent"]
Scope = Literal["see", "act", "files", "shell"]
FleetAction = Literal["start", "stop", "restart", "pause", "resume", "freeze", "thaw", "upgrade"]
Guarded = Literal["desktop.create", "desktop.destroy", "desktop.upgrade", "snapshot.restore", "egress.allow"]
# How long a request waits for an operation to end, and how long a stream may be silent (signs of life are 15 s apart).
WAIT_SECONDS = 30
SILENCE_SECONDS = 60.0
# What is answered of a Mission Control that is restarted or has much to do (0: nothing), and when it is asked again.
PASSING = (0, 429, 502, 503, 504)
AGAIN_SECONDS = 2.0
# A boot without KVM may take that long, an agent's turn longer.
PATIENCE = 3600.0


class AsyncMissionControl:
    """All desktops of a site that a key opens; made by `connect`, and closed at the end of `async with`."""

    def __init__(self, client: httpx.AsyncClient, ca: str | None) -> None:
        self._client, self.ca = client, ca

    @classmethod
    async def connect(cls, url: str, key: str, ca: str | None = None, via: str | None = None) -> "AsyncMissionControl":
        """Open it with a key of `./inv control.key`; `ca` is the file of the site's CA, where it has one of its own.

        `via` is a socket of this machine by which it is reached.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            remedy = "give its address, such as https://mission.localhost:9443"
            raise DesktopError("url", url, "is no address of Mission Control", remedy)
        try:
            # Without TLS nothing is proved: to read all authorities of the machine would take longer than to connect.
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls = ssl.create_default_context(cafile=ca) if parts.scheme == "https" else bare
        except (OSError, ssl.SSLError) as error:
            remedy = "give the file that Mission Control's certificate can be checked with"
            raise DesktopError("ca", str(ca), f"cannot be read ({error})", remedy) from error
        client = httpx.AsyncClient(
            base_url=f"{parts.scheme}://{parts.netloc}",
            headers={"Authorization": f"Bearer {key}"},
            transport=Transport(verify=tls, uds=via),
            timeout=httpx.Timeout(30, read=WAIT_SECONDS * 2),
        )
        found = cls(client, ca)
        try:
            await found.me()
        except BaseException:
            await found.close()
            raise
        return found

    async def __aenter__(self) -> "AsyncMissionControl":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def me(self) -> dict[str, Any]:
        """Who the key speaks for, and what it may do."""
        return dict(await self._get("/me"))

    async def version(self) -> dict[str, Any]:
        """The release that answers."""
        return dict(await self._ask("GET", "/version", below=""))

    # -- desktops

    async def desktops(
        self,
        workspace: str | None = None,
        state: DesktopIs | None = None,
        tier: str | None = None,
        q: str | None = None,
        upgrade: bool | None = None,
    ) -> AsyncGenerator[DesktopState, None]:
        """Each desktop that the key sees, by workspace and name; `q` is a part of the id.

        With `upgrade`, those for which there is another image, or those for which there is none.
        """
        wanted = None if upgrade is None else str(upgrade).lower()
        async for desktop in self._each("/desktops", workspace=workspace, state=state, tier=tier, q=q, upgrade=wanted):
            yield cast(DesktopState, desktop)

    async def desktop(self, id: str) -> DesktopState:
        """One desktop, by WORKSPACE.DESKTOP."""
        return cast(DesktopState, await self._get(f"/desktops/{id}"))

    async def create(
        self,
        workspace: str,
        name: str,
        tier: str = "free",
        image: str | None = None,
        keys: Sequence[str] = (),
        first_task: str | None = None,
    ) -> Operation:
        """Declare a desktop and bring it up; its agent is given `first_task` once it is ready."""
        wanted = {"workspaceId": workspace, "name": name, "tier": tier, "image": image, "keys": list(keys)}
        return await self._long("/desktops", {**wanted, "firstTask": first_task})

    async def start(self, id: str) -> Operation:
        """Start a desktop, or let it go on."""
        return await self._long(f"/desktops/{id}/start")

    async def stop(self, id: str, force: bool = False) -> Operation:
        """Shut a desktop down and keep it off; with `force` the plug is pulled."""
        return await self._long(f"/desktops/{id}/stop", {"force": force})

    async def restart(self, id: str, force: bool = False) -> Operation:
        """Shut a desktop down and start it again."""
        return await self._long(f"/desktops/{id}/restart", {"force": force})

    async def pause(self, id: str, to_disk: bool = False) -> Operation:
        """Halt a desktop as it is, with all that runs in it; with `to_disk` its memory is free on its host."""
        return await self._long(f"/desktops/{id}/pause", {"toDisk": to_disk})

    async def resume(self, id: str) -> Operation:
        """Let a paused desktop go on where it was halted."""
        return await self._long(f"/desktops/{id}/resume")

    async def upgrade(self, id: str, image: str | None = None, packages: bool = False) -> Operation:
        """Give a desktop a system of its image as built now; the key needs the scope desktops:destroy.

        /home stays, the rest of its disk goes, and comes back if it is not as well as before. With `image`, the
        `upgradeTo` that was seen, no other is taken; `packages` installs again what its owner had installed.
        """
        return await self._long(f"/desktops/{id}/upgrade", {"image": image, "packages": packages})

    async def preview_upgrade(self, id: str) -> Operation:
        """Ask a desktop what an upgrade would take: its result has `packages`, and the files of /etc that stay."""
        return await self._long(f"/desktops/{id}/upgrade/preview")

    async def freeze(self, id: str) -> Operation:
        """Halt what a desktop's agent runs, at once; a person still sees the screen and types."""
        return await self._long(f"/desktops/{id}/freeze")

    async def thaw(self, id: str) -> Operation:
        """Let a desktop's agent go on where it was halted."""
        return await self._long(f"/desktops/{id}/thaw")

    async def destroy(self, id: str) -> Operation:
        """Delete a desktop with all its data; the key needs the scope desktops:destroy."""
        return await self._long(f"/desktops/{id}/destroy")

    async def link(self, id: str, mode: Mode = "drive", scopes: Sequence[Scope] | None = None) -> str:
        """A link to a desktop that opens once: for a person (`drive`, `view`), or for a program (`agent`)."""
        wanted = {"mode": mode} | ({"scopes": list(scopes)} if scopes is not None else {})
        done = await self.wait(await self._long(f"/desktops/{id}/session", wanted))
        result = done["result"] or {}
        if "link" not in result:
            remedy = "ask for a new one"
            raise DesktopError("link", id, "was read by somebody with the same key, or is too old", remedy)
        return str(result["link"])

    async def open(self, id: str, scopes: Sequence[Scope] | None = None) -> AsyncDesktop:
        """Open a desktop for this program: its screen, windows, files and processes."""
        return await AsyncDesktop.connect(await self.link(id, "agent", scopes), self.ca)

    async def fleet(
        self, action: FleetAction, selector: Mapping[str, Any], expected_count: int = 0, dry_run: bool = False
    ) -> Fleet:
        """Do the same with all desktops of a selection, if they are as many as a dry run found.

        `action` is start, stop, restart, pause, resume, freeze, thaw or upgrade; of the last, the answer names from
        which image to which each goes (`upgrades`), and which are left out and why (`skipped`).
        """
        wanted = {"action": action, "selector": dict(selector), "expectedCount": expected_count, "dryRun": dry_run}
        return cast(Fleet, await self._post("/fleet/actions", wanted))

    # -- agents

    async def say(self, id: str, message: str, conversation: str | None = None) -> Sent:
        """Give a desktop's agent a message; it is stored before it is delivered."""
        return cast(
            Sent, await self._post(f"/desktops/{id}/chat", {"message": message, "conversationId": conversation})
        )

    async def answer(self, sent: Sent, seconds: float = PATIENCE) -> str:
        """Wait for the end of a turn; what the agent said in it."""
        await self.wait(sent["operationId"], seconds)
        turn = [
            message["text"]
            async for message in self.messages(sent["conversationId"])
            if message["role"] == "agent" and message["operationId"] == sent["operationId"]
        ]
        return "\n".join(turn)

    async def conversations(
        self, desktop: str | None = None, q: str | None = None
    ) -> AsyncGenerator[Conversation, None]:
        """Each conversation, the last first; `q` looks for words in what was said."""
        async for conversation in self._each("/conversations", desktop=desktop, q=q):
            yield cast(Conversation, conversation)

    async def messages(self, conversation: str) -> AsyncGenerator[Message, None]:
        """Each message of a conversation, the oldest first."""
        async for message in self._each(f"/conversations/{conversation}/messages"):
            yield cast(Message, message)

    async def export_conversation(self, conversation: str, format: Literal["json", "markdown"] = "json") -> str:
        """A whole conversation as a text to keep, the oldest message first."""
        return (await self._answer("GET", f"/conversations/{conversation}/export", params={"format": format})).text

    async def export_conversations(
        self, workspace: str, format: Literal["json", "markdown"] = "json"
    ) -> AsyncGenerator[str, None]:
        """All conversations of a workspace as pieces of a text to keep; raises `DesktopError` if it is cut."""
        path = f"/workspaces/{workspace}/conversations/export"
        async with self._client.stream("GET", API + path, params={"format": format}) as answer:
            if answer.status_code >= 400:
                raise refusal(answer.status_code, await answer.aread())
            try:
                async for piece in answer.aiter_text():
                    yield piece
            except httpx.TransportError as error:
                raise unreachable(path, error) from error

    async def interrupt(self, conversation: str) -> Operation:
        """End the turn that runs; what the agent said so far is kept."""
        return await self._long(f"/conversations/{conversation}/interrupt")

    async def answer_question(self, conversation: str, message: str, question: str, option: str) -> Question:
        """Answer what an agent asks by itself (`questions` of its message), with one of its options."""
        path = f"/conversations/{conversation}/messages/{message}/questions/{question}/answer"
        return cast(Question, await self._post(path, {"option": option}))

    async def retention(self) -> list[dict[str, Any]]:
        """How long conversations are kept, by the site and by workspaces; where nothing is said, for ever."""
        return await self._items("GET", "/retention")

    async def preview_retention(self, days: int, workspace: str | None = None) -> dict[str, Any]:
        """How many conversations and messages would go now if they were kept for so many days; nothing is deleted."""
        params = {"days": days} | ({"workspace": workspace} if workspace is not None else {})
        return dict(await self._ask("GET", "/retention/preview", params=params))

    async def set_retention(self, days: int | None, workspace: str | None = None) -> Operation:
        """Keep conversations so many days after their last message, or for ever; then they are deleted for good.

        Without `workspace` it is for all that have no such rule of their own; the key needs the scope admin.
        """
        return await self._long("/retention", {"workspaceId": workspace, "days": days})

    async def remove_retention(self, workspace: str) -> Operation:
        """Let the site say again how long the conversations of a workspace are kept."""
        return cast(Operation, await self._ask("DELETE", f"/retention/{workspace}"))

    # -- workspaces

    async def workspaces(self) -> AsyncGenerator[Workspace, None]:
        """Each declared workspace that the key sees."""
        async for workspace in self._each("/workspaces"):
            yield cast(Workspace, workspace)

    async def workspace(self, id: str) -> Workspace:
        """One workspace."""
        return cast(Workspace, await self._get(f"/workspaces/{id}"))

    async def act(self, workspace: str, verb: Literal["up", "start", "stop"]) -> Operation:
        """Bring a workspace to what is declared (`up`), or `start` or `stop` all its machines."""
        return await self._long(f"/workspaces/{workspace}/{verb}")

    async def create_workspace(
        self,
        name: str,
        desktops: Sequence[Mapping[str, str]],
        site: str = "local",
        network: str | None = None,
        egress: Literal["open", "locked", "none"] = "open",
    ) -> Operation:
        """Declare a workspace at its host and bring it up; the key needs the scope admin.

        Of each desktop: `name`, and `tier` and `image` if they are not the usual. Without `network`, a private /24,
        the host takes one that is free.
        """
        wanted = {"name": name, "desktops": [dict(desktop) for desktop in desktops], "site": site, "egress": egress}
        return await self._long("/workspaces", wanted | ({"network": network} if network is not None else {}))

    async def destroy_workspace(self, workspace: str, desktops: Sequence[str]) -> Operation:
        """Delete a workspace with all data of its desktops, after a last backup of each; the key needs the scope admin.

        `desktops` are their names as you saw them: with another one there it is refused (409).
        """
        return await self._long(f"/workspaces/{workspace}/destroy", {"desktops": list(desktops)})

    async def preview_destroy_workspace(self, workspace: str) -> Operation:
        """Ask what would be lost with a workspace and what is backed up before: its result says it, with `desktops`."""
        return await self._long(f"/workspaces/{workspace}/destroy/preview")

    # -- desktops for a task

    async def begin_task(
        self,
        workspace: str,
        tier: str | None = None,
        image: str | None = None,
        for_: str = "8h",
        request: str | None = None,
    ) -> Operation:
        """Get a desktop for a task, in seconds where one waits; the result of the operation names it (`desktop`).

        It is used as any other is, and goes with all its data by `release_task`, or when the time `for_` is over. The
        same `request`, a name of your own, is the same operation for a day, and the same desktop.
        """
        wanted = {"tier": tier, "image": image, "for": for_}
        return cast(Operation, await self._post(f"/workspaces/{workspace}/tasks", wanted, request))

    async def tasks(self, workspace: str) -> AsyncGenerator[Seat, None]:
        """Each seat for such desktops: free, or how far the desktop there is, who has it and until when."""
        async for seat in self._each(f"/workspaces/{workspace}/tasks"):
            yield cast(Seat, seat)

    async def release_task(self, id: str, machine: str | None = None) -> Operation:
        """End a desktop for a task, WORKSPACE.SEAT, with all its data; with `machine` that alone, and none after it.

        A key with the scope desktops:write ends its own; those of others need desktops:destroy.
        """
        workspace, _, seat = id.partition(".")
        params = {"machine": machine} if machine is not None else {}
        return cast(Operation, await self._ask("DELETE", f"/workspaces/{workspace}/tasks/{seat}", params=params))

    # -- what keeps a workspace well

    async def look(self, workspace: str) -> Operation:
        """Look what was refused and is allowed, keys by fingerprint, snapshots and backups: its result says it."""
        return await self._long(f"/workspaces/{workspace}/look")

    async def verify(self, workspace: str) -> Operation:
        """Probe the isolation of a running workspace from its own machines."""
        return await self._long(f"/workspaces/{workspace}/verify")

    async def allow(self, workspace: str, name: str, how_long: Literal["15m", "1h", "always"] = "15m") -> Operation:
        """Let the desktops of a locked workspace reach a name: for `15m`, `1h`, or `always`.

        The key needs the scope approvals:decide; where a rule of approvals is in force it is refused.
        """
        return await self._long(f"/workspaces/{workspace}/allowed", {"name": name, "howLong": how_long})

    async def take_snapshot(self, id: str, name: str, text: str = "", expires_hours: int | None = None) -> Operation:
        """Take a snapshot of a desktop, with its memory while it runs."""
        wanted = {"name": name, "text": text, "expiresHours": expires_hours}
        return await self._long(f"/desktops/{id}/snapshots", wanted)

    async def restore_snapshot(self, id: str, name: str) -> Operation:
        """Put a desktop back to a snapshot, and lose what changed since; the key needs the scope desktops:destroy."""
        return await self._long(f"/desktops/{id}/snapshots/{name}/restore")

    async def back_up(self, id: str) -> Operation:
        """Make a backup of a desktop; it counts once the host has verified it."""
        return await self._long(f"/desktops/{id}/backups")

    # -- approvals

    async def approvals(
        self, state: ApprovalIs | None = None, workspace: str | None = None, desktop: str | None = None
    ) -> AsyncGenerator[Approval, None]:
        """Each connection that waits, or waited, for a person, the newest first."""
        async for approval in self._each("/approvals", state=state, workspace=workspace, desktop=desktop):
            yield cast(Approval, approval)

    async def approval(self, id: str) -> Approval:
        """One of them as it is."""
        return cast(Approval, await self._get(f"/approvals/{id}"))

    async def decide(
        self, approval: str, answer: Literal["once", "15m", "always", "refuse"], reason: str = ""
    ) -> Operation:
        """Answer `once`, `15m`, `always` or `refuse`; needs `approvals:decide`, a scope that no desktop may have."""
        return await self._long(f"/approvals/{approval}/decide", {"answer": answer, "reason": reason})

    async def approval_rules(self) -> list[dict[str, Any]]:
        """Who answers for which workspace, and how many have to."""
        return await self._items("GET", "/approval-rules")

    async def set_approval_rule(
        self,
        workspace: str,
        persons: int = 1,
        roles: Sequence[Literal["operator", "admin"]] = (),
        people: Sequence[str] = (),
        keys: Sequence[str] = (),
        operations: Sequence[Guarded] = (),
    ) -> Operation:
        """Let these answer for a workspace: roles, names of persons, ids of keys; none: all who may answer at all.

        Each of `operations`, kinds such as `desktop.destroy`, waits until as many others than who asked allow it.
        """
        names = {"roles": list(roles), "people": list(people), "keys": list(keys), "operations": list(operations)}
        return await self._long("/approval-rules", {"workspaceId": workspace, "persons": persons, **names})

    async def remove_approval_rule(self, workspace: str) -> Operation:
        """Let everybody who may answer at all do so, alone."""
        return cast(Operation, await self._ask("DELETE", f"/approval-rules/{workspace}"))

    # -- operations

    async def decide_operation(self, id: str, answer: Literal["allow", "refuse"], reason: str = "") -> Operation:
        """Answer `allow` or `refuse` to an operation that waits for others; needs `approvals:decide`."""
        return await self._long(f"/operations/{id}/decide", {"answer": answer, "reason": reason})

    async def operations(
        self,
        state: OperationIs | None = None,
        workspace: str | None = None,
        desktop: str | None = None,
        kind: str | None = None,
    ) -> AsyncGenerator[Operation, None]:
        """Each operation, the newest first."""
        async for operation in self._each("/operations", state=state, workspace=workspace, desktop=desktop, kind=kind):
            yield cast(Operation, operation)

    async def operation(self, id: str) -> Operation:
        """One operation as it is."""
        return cast(Operation, await self._get(f"/operations/{id}"))

    async def wait(self, operation: Operation | str, seconds: float = PATIENCE) -> Operation:
        """Wait for an operation's end; raises `DesktopError` if it failed, was cancelled, or is not over in time.

        Where Mission Control does not answer for a while, the operation goes on all the same: it is asked again.
        """
        id, ends = operation if isinstance(operation, str) else operation["id"], time.monotonic() + seconds
        while True:
            left = max(0, min(WAIT_SECONDS, math.ceil(ends - time.monotonic())))
            try:
                found = cast(Operation, await self._get(f"/operations/{id}", headers={"Prefer": f"wait={left}"}))
            except DesktopError as error:
                if error.status not in PASSING or time.monotonic() + AGAIN_SECONDS >= ends:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if found["state"] == "done":
                return found
            if found["state"] in ENDED:
                raise _ended_badly(found)
            if time.monotonic() >= ends:
                reason = f"is {found['state']} after {seconds:.0f} s ({found['why'] or found['progress'] or '-'})"
                raise DesktopError("operation", id, reason, "wait longer, or look at its log")

    async def log(self, operation: str, after: int = 0) -> list[LogLine]:
        """The log of an operation, after a line number."""
        found = await self._get(f"/operations/{operation}/log", {"after": after})
        return cast(list[LogLine], found["items"])

    async def cancel(self, operation: str, force: bool = False) -> Operation:
        """Ask an operation to end; with `force` one that does not is killed, and may leave something half done.

        That is refused (409) until 15 seconds after it was asked to.
        """
        return await self._long(f"/operations/{operation}/cancel", {"force": True} if force else None)

    async def retry(self, operation: str) -> Operation:
        """Want the same again, as a new operation."""
        return await self._long(f"/operations/{operation}/retry")

    async def events(
        self, after: str | None = None, workspace: str | None = None, desktop: str | None = None
    ) -> AsyncGenerator[News, None]:
        """Yield changes, from now on or after the `id` of the last one heard; ends when lists have to be read anew.

        They have to be if that event is not kept any more, after a day, or the database was put back since.
        """
        wanted = _said(workspace=workspace, desktop=desktop)
        headers = {"Last-Event-ID": after} if after else {}
        place = kind = ""
        timeout = httpx.Timeout(30, read=SILENCE_SECONDS)
        try:
            async with self._client.stream(
                "GET", f"{API}/events", params=wanted, headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code >= 400:
                    raise refusal(answer.status_code, await answer.aread())
                async for line in lines(answer):
                    name, _, value = line.partition(": ")
                    if name == "id":
                        place = value
                    elif name == "event":
                        kind = value
                    elif name == "data" and kind == "reset":
                        return
                    elif name == "data":
                        yield {"id": place, "kind": kind, "data": _read("/events", value)}
        except httpx.TransportError as error:
            raise unreachable("/events", error) from error

    # -- what is wrong, and what it costs

    async def alerts(self, open: bool | None = None, workspace: str | None = None) -> AsyncGenerator[Alert, None]:
        """Each alert, the newest first; `open` is whether its cause is still there."""
        async for alert in self._each("/alerts", open=open, workspace=workspace):
            yield cast(Alert, alert)

    async def timeline(
        self, desktop: str, kinds: Sequence[MomentKind] = (), before: str | None = None
    ) -> AsyncGenerator[Moment, None]:
        """Each moment of a desktop, the newest first, also of one that is gone; of some kinds, or before a moment."""
        async for moment in self._each(f"/desktops/{desktop}/timeline", kind=list(kinds) or None, before=before):
            yield cast(Moment, moment)

    async def acknowledge(self, alert: str) -> Alert:
        """Say that somebody looks after an alert."""
        return cast(Alert, await self._post(f"/alerts/{alert}/acknowledge"))

    async def silence(self, alert: str, until: str) -> Alert:
        """Tell webhooks nothing of an alert until a moment (ISO 8601)."""
        return cast(Alert, await self._post(f"/alerts/{alert}/silence", {"until": until}))

    async def alert_rules(self) -> list[dict[str, Any]]:
        """The rules of alerts, with their numbers."""
        return await self._items("GET", "/alert-rules")

    async def set_alert_rules(
        self, rules: Sequence[Mapping[str, Any]], as_of: str | None = None
    ) -> list[dict[str, Any]]:
        """Put rules in force or out of it, and set their numbers: `kind`, `enabled`, `number` each.

        `as_of` is that of `set_quota`; of several rules, the newest of their `changedAt`.
        """
        wanted = {"rules": [dict(rule) for rule in rules]}
        return await self._items("PUT", "/alert-rules", json=wanted, headers=_as_read(as_of))

    async def usage(
        self,
        by: Literal["desktop", "workspace", "day"] | None = None,
        since: str | None = None,
        until: str | None = None,
        workspace: str | None = None,
        desktop: str | None = None,
    ) -> dict[str, Any]:
        """Machine time, cost, claimed tokens and counted bytes by desktop and day, or added up `by` one of these."""
        wanted = _said(by=by, since=since, until=until, workspace=workspace, desktop=desktop)
        return dict(await self._get("/usage", wanted))

    async def usage_csv(
        self,
        since: str | None = None,
        until: str | None = None,
        workspace: str | None = None,
        desktop: str | None = None,
    ) -> str:
        """Machine time and cost by desktop and day, as CSV."""
        wanted = _said(since=since, until=until, workspace=workspace, desktop=desktop)
        return (await self._answer("GET", "/usage.csv", params=wanted)).text

    async def traffic_csv(
        self,
        since: str | None = None,
        until: str | None = None,
        workspace: str | None = None,
        desktop: str | None = None,
    ) -> str:
        """Bytes and connections by day, desktop and name, as gateways counted them, as CSV."""
        wanted = _said(since=since, until=until, workspace=workspace, desktop=desktop)
        return (await self._answer("GET", "/usage/traffic.csv", params=wanted)).text

    async def metrics(self) -> str:
        """Counts for Prometheus."""
        return (await self._answer("GET", "/metrics")).text

    async def prices(self) -> list[dict[str, Any]]:
        """The prices of tiers, with their history."""
        return await self._items("GET", "/prices")

    async def set_prices(self, micros_per_hour: Mapping[str, int], as_of: str | None = None) -> list[dict[str, Any]]:
        """Set what tiers cost from now on, in millionths of the site's unit.

        `as_of` is that of `set_quota`; of several tiers, the newest `changedAt` of their prices.
        """
        prices = [{"tier": tier, "microsPerHour": price} for tier, price in micros_per_hour.items()]
        return await self._items("PUT", "/prices", json={"prices": prices}, headers=_as_read(as_of))

    async def budgets(self) -> list[dict[str, Any]]:
        """The budgets of workspaces: the cost and bytes allowed in a month, and those spent; bytes as of `bytesAt`."""
        return await self._items("GET", "/budgets")

    async def set_budget(
        self,
        workspace: str,
        micros_per_month: int | None = None,
        closes: Sequence[str] | None = None,
        bytes_per_month: int | None = None,
        as_of: str | None = None,
    ) -> list[dict[str, Any]]:
        """Set what a workspace's machine time may cost in a month, and the bytes that its gateway may count.

        None: no such bound; both None: it has no budget. While either is spent the workspace's gateway lets nobody
        reach the names in `closes`; None leaves them as they are. `as_of` is that of `set_quota`.
        """
        wanted: dict[str, Any] = {"microsPerMonth": micros_per_month}
        # A server of before there were two bounds knows of one.
        wanted |= {} if bytes_per_month is None else {"bytesPerMonth": bytes_per_month}
        wanted |= {} if closes is None else {"closes": list(closes)}
        return await self._items("PUT", f"/budgets/{workspace}", json=wanted, headers=_as_read(as_of))

    async def quotas(self) -> list[dict[str, Any]]:
        """How much workspaces, persons and keys may have at most, and have."""
        return await self._items("GET", "/quotas")

    async def set_quota(
        self,
        subject: str,
        desktops: int | None = None,
        memory_mib: int | None = None,
        micros_per_day: int | None = None,
        vcpus: int | None = None,
        disk_gib: int | None = None,
        as_of: str | None = None,
    ) -> list[dict[str, Any]]:
        """Set the most that `workspace:NAME`, `person:NAME` or `key:ID` may have; with none of them, no quota.

        With `as_of`, the `changedAt` that was read, it raises `DesktopError` (412) where somebody changed it since.
        """
        wanted = {"desktops": desktops, "memoryMib": memory_mib, "microsPerDay": micros_per_day}
        wanted |= {"vcpus": vcpus, "diskGib": disk_gib}
        return await self._items("PUT", f"/quotas/{subject}", json=wanted, headers=_as_read(as_of))

    async def webhooks(self) -> list[dict[str, Any]]:
        """Who is told of alerts."""
        return await self._items("GET", "/webhooks")

    async def make_webhook(self, url: str) -> dict[str, Any]:
        """Tell somebody of every alert from now on; the answer alone holds the secret of its signatures."""
        return dict(await self._post("/webhooks", {"url": url}))

    async def remove_webhook(self, id: str) -> None:
        """Tell it nothing more."""
        await self._ask("DELETE", f"/webhooks/{id}")

    async def test_webhook(self, id: str) -> dict[str, Any]:
        """Send it a message."""
        return dict(await self._post(f"/webhooks/{id}/test"))

    async def deliveries(self, webhook: str) -> list[dict[str, Any]]:
        """The deliveries of a webhook's last messages."""
        return await self._items("GET", f"/webhooks/{webhook}/deliveries")

    # -- who may do what, and who did

    async def keys(self) -> list[dict[str, Any]]:
        """The API keys, without their secrets."""
        return await self._items("GET", "/keys")

    async def revoke_key(self, id: str) -> None:
        """Let a key open nothing any more."""
        await self._ask("DELETE", f"/keys/{id}")

    async def people(self) -> list[dict[str, Any]]:
        """Who may sign in."""
        return await self._items("GET", "/people")

    async def sessions(self) -> list[dict[str, Any]]:
        """Who is signed in."""
        return await self._items("GET", "/sessions")

    async def end_session(self, id: str) -> None:
        """Sign somebody out."""
        await self._ask("DELETE", f"/sessions/{id}")

    async def audit(self) -> AsyncGenerator[dict[str, Any], None]:
        """Each line of the audit, the newest first."""
        async for line in self._each("/audit"):
            yield dict(line)

    async def export_audit(self, after: int = 0) -> AsyncGenerator[dict[str, Any], None]:
        """Each line of the audit after a number, the oldest first; raises `DesktopError` if it is cut."""
        try:
            async with self._client.stream("GET", f"{API}/audit/export", params={"after": after}) as answer:
                if answer.status_code >= 400:
                    raise refusal(answer.status_code, await answer.aread())
                async for line in lines(answer):
                    yield dict(_read("/audit/export", line))
        except httpx.TransportError as error:
            raise unreachable("/audit/export", error) from error

    async def verify_audit(self) -> dict[str, Any]:
        """Whether the chain of the audit holds."""
        found = await self._get("/audit/verify", {"after": 0})
        while found.get("more"):
            found = await self._get("/audit/verify", {"after": found["entries"], "head": found["head"]})
        return dict(found)

    # -- the wire

    async def _each(self, path: str, **filters: Any) -> AsyncGenerator[Any, None]:
        wanted = {name: value for name, value in filters.items() if value is not None}
        while True:
            part = await self._get(path, wanted)
            for item in part["items"]:
                yield item
            if not part.get("nextCursor"):
                return
            wanted["after"] = part["nextCursor"]

    async def _items(self, method: str, path: str, **what: Any) -> list[dict[str, Any]]:
        """The items of a list, all of its parts; what changes one answers with its first."""
        part = await self._ask(method, path, **what)
        items = list(part["items"])
        listed = path if method == "GET" else "/" + path.split("/")[1]
        while part.get("nextCursor"):
            part = await self._get(listed, {"after": part["nextCursor"]})
            items += part["items"]
        return items

    async def _get(self, path: str, params: Mapping[str, Any] | None = None, **more: Any) -> Any:
        return await self._ask("GET", path, params=params, **more)

    async def _long(self, path: str, body: Mapping[str, Any] | None = None) -> Operation:
        return cast(Operation, await self._post(path, body))

    async def _post(self, path: str, body: Mapping[str, Any] | None = None, request: str | None = None) -> Any:
        """Want something once: whether a request that was cut arrived, its key tells Mission Control."""
        headers = {"Idempotency-Key": request or str(uuid.uuid4())}
        try:
            return await self._ask("POST", path, json=body, headers=headers)
        except DesktopError as error:
            if error.status:
                raise
            return await self._ask("POST", path, json=body, headers=headers)

    async def _ask(self, method: str, path: str, below: str = API, **what: Any) -> Any:
        answer = await self._answer(method, path, below, **what)
        return _read(path, answer.content) if answer.content else None

    async def _answer(self, method: str, path: str, below: str = API, **what: Any) -> httpx.Response:
        try:
            answer = await self._client.request(method, below + path, **what)
        except httpx.TransportError as error:
            raise unreachable(path, error) from error
        if answer.status_code >= 400:
            raise refusal(answer.status_code, answer.content)
        return answer


def _read(path: str, text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        # Something between has answered in its place, or has cut what it said.
        raise unreachable(path, error) from error


def _ended_badly(operation: Operation) -> DesktopError:
    problem = operation["problem"]
    if problem is None:
        return DesktopError("operation", operation["id"], f"is {operation['state']}", "look at its log")
    return DesktopError(problem["field"], problem["value"], problem["reason"], problem["remedy"])


def _said(**filters: str | None) -> dict[str, str]:
    """Those filters that say something."""
    return {name: value for name, value in filters.items() if value}


def _as_read(changed_at: str | None) -> dict[str, str]:
    """The condition that a setting is as it was read."""
    return {"If-Match": f'"{changed_at}"'} if changed_at else {}
