"""Whether what was said on the page of a gateway was said there: by the gateway's own word, before it is delivered."""

import hashlib
from collections.abc import Mapping
from typing import Any

from deskyard.access import gateway_program
from deskyard.errors import ConfigError


def require(wanted: Mapping[str, Any]) -> None:
    """Raise `ConfigError` unless the message was said in Mission Control, or its gateway's audit has it.

    Who asks gateways all day wrote it down: it is not to make a person say what that person did not. A line of the
    audit is used once, as the database takes no name of a request twice.
    """
    given = wanted["input"]
    page = given.get("page")
    if page is None:
        return
    session, _, id = str(page["request"]).partition(".")
    digest = hashlib.sha256(given["text"].encode()).hexdigest()
    expected = {
        "event": "say",
        "seq": page["line"],
        "session": session,
        "id": id,
        "desktop": str(wanted["desktop"]).partition(".")[2],
        # Whoever tries it again says nothing: it was said by who wrote it.
        "actor": given["said_by"],
        "digest": digest,
    }
    link = gateway_program.require(wanted["workspace"])
    asked = ["audit", f"--since={int(page['line']) - 1}", f"--session={session}"]
    match gateway_program.ask(link, asked):
        case list(lines):
            is_there = any(isinstance(line, dict) and expected.items() <= line.items() for line in lines)
        case _:
            is_there = False
    if not is_there:
        reason, remedy = "was not said on that page, by its gateway's word", "write it again"
        raise ConfigError("message", given["message"], reason, remedy)
