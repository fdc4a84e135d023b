"""The proxy before the web process: TLS, HTTP/2, limits by address and key; it reaches one socket."""

import ipaddress
import json
from http import HTTPStatus

import jinja2

from deskyard.control.e2b.declared import Declared
from deskyard.control.ground.folder import Folder, group_of
from deskyard.control.ground.problem import members
from deskyard.control.ground.settings import Settings
from deskyard.errors import DeskyardError
from deskyard.host.places import tree

TEMPLATE = tree() / "deskyard/control/process/haproxy.cfg.j2"
# In so many seconds, by address and by key: a page opens with a handful, a program may be busy.
SECONDS = 10
MOST_REQUESTS = MOST_BY_KEY = 400
MOST_SIGN_INS = 30
# Of E2B's clients, which ask for each click and each file.
MOST_CALLS = 2000
# Connections at once, of all: those of E2B's clients last for hours, and leave at least half to people. Who answers
# them asks the web process, which has 2000 at once.
MOST_AT_ONCE, MOST_OF_CLIENTS, MOST_WITHIN = 4000, 1500, 500


def configuration(settings: Settings, folder: Folder, e2b: Declared | None = None) -> str:
    """HAProxy's configuration; with the names of E2B's clients, where they are answered."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(TEMPLATE.read_text()).render(
        settings=settings,
        folder=folder,
        e2b=e2b,
        user=folder.accounts.proxy,
        group=group_of(folder.accounts.proxy),
        bind=f"[{settings.listen}]" if ipaddress.ip_address(settings.listen).version == 6 else settings.listen,
        seconds=SECONDS,
        most_requests=MOST_REQUESTS,
        most_by_key=MOST_BY_KEY,
        most_calls=MOST_CALLS,
        most_sign_ins=MOST_SIGN_INS,
        most_at_once=MOST_AT_ONCE,
        most_of_clients=MOST_OF_CLIENTS,
        most_within=MOST_WITHIN,
        refusals={
            "address": _refusal("address", MOST_REQUESTS),
            "sign_in": _refusal("address", MOST_SIGN_INS, " to sign in"),
            "key": _refusal("key", MOST_BY_KEY),
            "calls": _refusal("address", MOST_CALLS),
        },
    )


def _refusal(field: str, most: int, what: str = "") -> str:
    """The problem (RFC 9457) that says a limit, as the API says others; in a string of HAProxy's between quotes."""
    reason = f"sent more than {most} requests{what} in {SECONDS} s"
    error = DeskyardError(field, None, reason, "wait as long as Retry-After says")
    return json.dumps(members(HTTPStatus.TOO_MANY_REQUESTS, error))
