"""A link works once, and every step of it is in the audit."""

import json
from typing import Any

from deskyard.wire.gateway_settings import Settings
from tests.molecule.door import Door


def test_link_works_once_and_is_written_down(host: Any, settings: Settings, door: Door) -> None:
    granted = json.loads(host.check_output(f"deskyard-gateway grant --desktop {settings.desktops[0].name}"))
    assert door.redeem(granted["ticket"]).status == 200
    assert door.redeem(granted["ticket"]).status in (401, 403, 404, 409, 410)
    sessions = {session["id"]: session for session in json.loads(host.check_output("deskyard-gateway list"))}
    assert sessions[granted["id"]]["desktop"] == settings.desktops[0].name
    audit = host.file("/var/log/deskyard/audit.jsonl").content_string
    assert granted["id"] in audit
    assert granted["ticket"] not in audit


def test_revoked_session_opens_nothing(host: Any, settings: Settings, door: Door) -> None:
    granted = json.loads(host.check_output(f"deskyard-gateway grant --desktop {settings.desktops[0].name}"))
    cookie = door.redeem(granted["ticket"]).cookie
    path = f"/d/{settings.desktops[0].name}/vnc"
    # Nobody listens on this desktop: the session is good, the desktop does not answer.
    assert door.upgrade(path, cookie).status in (502, 503)
    host.check_output(f"deskyard-gateway revoke {granted['id']}")
    assert door.upgrade(path, cookie).status == 401
