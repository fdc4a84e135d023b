"""Changes the key that signs sessions, without ending any: published first, then used; the old one leaves last."""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.config.lock import alone
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import System
from deskyard.gateway.session import line, signing
from deskyard.wire.gateway_settings import Settings

MARGIN_SECONDS = 60
REMEDY = "mend the cause; the keys are as they were"


def rotate(layout: Layout, system: System, *, at_once: bool, actor: str) -> dict[str, Any]:
    """Sign with a new key from now on. Cookies of the old one stay good until they end, or `at_once` no more."""
    folder = layout.signing_keys
    with alone(layout):
        # Read here: while this waited, others may have come into force.
        settings = in_force(layout)
        old = signing.active(folder)
        # Said in so many words, or a restart of the session service now would sign with a key that HAProxy lacks.
        files.write(folder / "active", f"{old}\n")
        kid = signing.create(folder, signing.next_kid(folder), layout.signing_group)
        try:
            _publish([kid] if at_once else signing.kids(folder), settings, layout, system)
        except GatewayError:
            for suffix in ("key", "pub"):
                (folder / f"{kid}.{suffix}").unlink()
            raise
        files.write(folder / "active", f"{kid}\n")
        # Nobody can sign with the old one any more; its public part is needed for the cookies that are out.
        for path in folder.glob("k*.key"):
            if path.stem != kid:
                path.unlink()
        ends = time.time() + layout.lease_seconds + MARGIN_SECONDS
        if at_once:
            _forget([old_kid for old_kid in signing.kids(folder) if old_kid != kid], layout)
        else:
            _write_retired(layout, {**_retired(layout), old: ends})
        line.ask(layout.admin_socket, {"command": "keys", "actor": actor, "kid": kid, "at_once": at_once})
    return {"signs": kid, "accepted": signing.kids(folder), "old_until": None if at_once else int(ends)}


def retire(layout: Layout, system: System) -> dict[str, Any]:
    """Drop the keys whose last cookie is over."""
    with alone(layout):
        over = [kid for kid, ends in _retired(layout).items() if ends <= time.time()]
        if over:
            kept = [kid for kid in signing.kids(layout.signing_keys) if kid not in over]
            _publish(kept, in_force(layout), layout, system)
            _forget(over, layout)
    return {"dropped": over, "accepted": signing.kids(layout.signing_keys)}


def _publish(kids: Sequence[str], settings: Settings, layout: Layout, system: System) -> None:
    """Let HAProxy accept these keys and no others; or keep what was, and raise `GatewayError`."""
    # The timer that looks whether a key is over finds none, nearly always: it needs nothing of this.
    from deskyard.gateway.config import render
    from deskyard.gateway.config.replacement import RELOAD_DOOR, Part, door_check, judge, replace

    text = render.haproxy(settings, layout, kids, layout.tls_bundle)
    if not layout.tls_bundle.exists():
        raise GatewayError("certificate", None, "is not there yet: there is no door", "run workspace.up first")
    with tempfile.TemporaryDirectory(prefix="deskyard-keys.") as name:
        staged = Path(name) / "haproxy.cfg"
        staged.write_text(text)
        judge("signing key", door_check(staged, settings, layout), system, REMEDY)
    replace([Part("signing key", layout.proxy_file, text, (RELOAD_DOOR,))], system, REMEDY)


def _forget(kids: Sequence[str], layout: Layout) -> None:
    for kid in kids:
        (layout.signing_keys / f"{kid}.pub").unlink(missing_ok=True)
    _write_retired(layout, {kid: ends for kid, ends in _retired(layout).items() if kid not in kids})


def _retired(layout: Layout) -> dict[str, float]:
    """Key -> when its last cookie is over."""
    text = files.read(layout.signing_keys / "retired.json")
    return {str(kid): float(ends) for kid, ends in json.loads(text).items()} if text else {}


def _write_retired(layout: Layout, retired: dict[str, float]) -> None:
    files.write(layout.signing_keys / "retired.json", json.dumps(retired) + "\n")
