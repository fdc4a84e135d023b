"""The members of a problem (RFC 9457), for what answers by the web framework and for what does not."""

from http import HTTPStatus
from typing import Any

from deskyard.errors import DeskyardError


def members(status: int, error: DeskyardError) -> dict[str, Any]:
    """The problem's own members, and the field, value, reason and remedy of the error."""
    detail = f"{error.field}: {error.reason}"
    own = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return {**own, **error.as_dict()}
