"""Whose name an E2B client gives: the service has one account, which also answers to E2B's `user`."""

import base64
import binascii
import getpass
from http import HTTPStatus

from starlette.requests import Request

from deskyard.computer.problem import Problem

DEFAULT = "user"


def require_account(request: Request) -> None:
    """Raise `Problem` where a client asks for an account that the service is not."""
    name = request.query_params.get("username") or _named(request.headers.get("authorization", ""))
    own = getpass.getuser()
    if name not in ("", DEFAULT, own):
        remedy = f"leave the user out, or use sudo in a command of '{own}' where the desktop lets it"
        raise Problem(HTTPStatus.UNAUTHORIZED, "user", name, f"is not the account of this desktop, '{own}'", remedy)


def _named(header: str) -> str:
    scheme, _, content = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(content).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""
