"""The session service's private line: one JSON request, one JSON answer, over a unix socket for root alone."""

import asyncio
import json
import traceback
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.machine.private_socket import asking_user, is_private, listen
from deskyard.gateway.session.sessions import Sessions

LIMIT = 65536


async def serve(sessions: Sessions, path: Path) -> asyncio.Server:
    """Listen on `path`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await _answer(sessions, reader, writer)
            writer.write(json.dumps(answer).encode())
            await writer.drain()
        except ConnectionError:
            pass  # the asking side left
        finally:
            writer.close()

    return await listen(handle, path, LIMIT)


async def _answer(sessions: Sessions, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
    if not is_private(user := asking_user(writer)):
        return {"error": GatewayError("user", user, "may not administer sessions", "use root").as_dict()}
    request: dict[str, Any] = {}
    try:
        async with asyncio.timeout(10):
            request = json.loads(await _whole(reader))
        return {"result": await _dispatch(sessions, request)}
    except GatewayError as error:
        return {"error": error.as_dict()}
    except (ValueError, KeyError, TypeError, TimeoutError) as error:
        wrong = GatewayError("request", type(error).__name__, "is malformed", "use deskyard-gateway")
        return {"error": wrong.as_dict()}
    except Exception as error:  # who asks gets an answer, whatever failed; the journal gets all of it
        traceback.print_exc()
        reason = f"failed: {type(error).__name__}: {error}"
        remedy = "see `journalctl -u deskyard-session` in the gateway"
        return {"error": GatewayError("session service", request.get("command"), reason, remedy).as_dict()}


async def _whole(reader: asyncio.StreamReader) -> bytes:
    """All that the asking side says until it has no more to say: it may come in pieces (socat's have 8 KiB)."""
    said = b""
    while piece := await reader.read(LIMIT):
        said += piece
        if len(said) > LIMIT:
            raise GatewayError("request", None, f"is longer than {LIMIT} bytes", "ask for less at once")
    return said


async def _dispatch(sessions: Sessions, request: dict[str, Any]) -> Any:
    match request["command"]:
        case "grant":
            return sessions.grant(
                request["desktop"],
                request["routes"],
                request["mode"],
                request["ttl"],
                request["actor"],
                # A host of before knows no scopes.
                request.get("scopes"),
            )
        case "list":
            return await sessions.listing()
        case "revoke":
            return await sessions.revoke(request["id"], request["desktop"], request["all"], request["actor"])
        case "keys":
            return sessions.use_keys(request)
        case "certificate":
            return sessions.note_certificate(request["facts"])
        case "ask":
            return sessions.note_ask(request["facts"])
        case "deciders":
            return sessions.note_deciders(request["facts"])
        case "anchor":
            return sessions.anchors.add(request["source"], request["number"], request["head"], request["actor"])
        case "agent":
            match request["action"]:
                case "stop":
                    await sessions.stop_agent(request["desktop"], request["actor"])
                case "go":
                    await sessions.let_agent_go(request["desktop"], request["actor"])
            return sessions.halts.listing()
        case "waking":
            return sessions.awaiting.tell(request["desktop"], request["state"])
        case "stages":
            return sessions.awaiting.hear_stages(request["desktops"])
        case "ping":
            return {
                "digest": sessions.settings.digest,
                "view": sessions.streams.line.is_open(),
                "stopped": sessions.halts.listing(),
            }
    raise GatewayError("command", request["command"], "is not known", "use deskyard-gateway")
