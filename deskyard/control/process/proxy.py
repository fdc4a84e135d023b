"""The proxy before the web process: TLS, HTTP/2, limits by address; it reaches one socket."""

import ipaddress

import jinja2

from deskyard.control.folder import Folder, group_of
from deskyard.control.process.settings import Settings
from deskyard.host.places import tree

TEMPLATE = tree() / "deskyard/control/process/haproxy.cfg.j2"
# By address, in ten seconds: a page opens with a handful, a program may be busy.
MOST_REQUESTS = 400
MOST_SIGN_INS = 30


def configuration(settings: Settings, folder: Folder) -> str:
    """HAProxy's configuration."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(TEMPLATE.read_text()).render(
        settings=settings,
        folder=folder,
        user=folder.accounts.proxy,
        group=group_of(folder.accounts.proxy),
        bind=f"[{settings.listen}]" if ipaddress.ip_address(settings.listen).version == 6 else settings.listen,
        most_requests=MOST_REQUESTS,
        most_sign_ins=MOST_SIGN_INS,
    )
