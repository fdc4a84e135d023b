"""What the service refuses, as an exception and as the answer that a client reads."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deskyard.errors import DeskyardError


class Problem(DeskyardError):
    """A request that is refused or failed: the HTTP status, and the four parts of each error."""

    def __init__(self, status: HTTPStatus, field: str, value: object, reason: str, remedy: str) -> None:
        super().__init__(field, value, reason, remedy)
        self.status = status


async def answer(request: Request, error: Exception) -> Response:
    """The answer to a `Problem`; a client tells errors apart by `error`, the field."""
    assert isinstance(error, Problem)
    return JSONResponse(described(error), int(error.status))


def described(problem: Problem) -> dict[str, str]:
    """A problem as the body of an answer."""
    parts = problem.as_dict()
    return {"error": parts.pop("field"), **parts}
