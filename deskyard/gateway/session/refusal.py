"""A refusal to a browser or the filter, with the HTTP status that says so."""

from http import HTTPStatus

from deskyard.errors import GatewayError
from deskyard.gateway.machine.room import Unwritable


class Refusal(GatewayError):
    """A refusal; `field` is the word for programs."""

    def __init__(self, status: HTTPStatus, field: str, reason: str, remedy: str, value: object = None) -> None:
        super().__init__(field, value, reason, remedy)
        self.status = status


def status_of(error: GatewayError) -> int:
    """The HTTP status of an error: its own, 503 for what passes when there is room, 401 for what has no session."""
    if isinstance(error, Refusal):
        return error.status
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, Unwritable) else HTTPStatus.UNAUTHORIZED
