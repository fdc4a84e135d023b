"""A refusal of the service, as an exception and as the answer that a client reads."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from deskyard.computer.answers.answered import Answered, Refusal
from deskyard.errors import DeskyardError

CLOSED, MOST_REASON = 4000, 123


class Problem(DeskyardError):
    """A request that is refused or failed: the HTTP status, and the four parts of each error."""

    def __init__(self, status: HTTPStatus, field: str, value: object, reason: str, remedy: str) -> None:
        super().__init__(field, value, reason, remedy)
        self.status = status


async def answer(request: Request, error: Exception) -> Response:
    """The answer to a `Problem`; a client tells errors apart by `error`, the field."""
    assert isinstance(error, Problem)
    return _answered(error)


async def deny(websocket: WebSocket, problem: Problem) -> None:
    """Refuse a WebSocket before it is open, as a request is refused."""
    await websocket.send_denial_response(_answered(problem))


async def close(websocket: WebSocket, problem: Problem) -> None:
    """End a WebSocket that is open: the status after 4000, and what is wrong as far as the protocol's 123 bytes go."""
    reason = f"{problem.field}: {problem.reason}; {problem.remedy}".encode()
    await websocket.close(CLOSED + problem.status, reason[:MOST_REASON].decode(errors="ignore"))


def _answered(problem: Problem) -> Answered[Refusal]:
    return Answered(described(problem), int(problem.status))


def described(problem: Problem) -> Refusal:
    """A problem as the body of an answer."""
    parts = problem.as_dict()
    return {"error": parts["field"], "value": parts["value"], "reason": parts["reason"], "remedy": parts["remedy"]}
