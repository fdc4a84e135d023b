"""An answer in JSON whose type the function of its route names: mypy holds the code to it, and the document has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypedDict, TypeVar

from starlette.responses import JSONResponse

T = TypeVar("T")


class Answered(JSONResponse, Generic[T]):
    """The answer that holds a value of this type."""

    def __init__(self, content: T, status: int = 200) -> None:
        super().__init__(content, status)


class Refusal(TypedDict):
    """The refusal of a request: what is wrong, and what to do; `error` names the field."""

    error: str
    value: str
    reason: str
    remedy: str


class Done(TypedDict):
    """Word that it is done."""

    ok: bool


class DoneAfter(Done):
    """Word that it is done; `event` is the number of the last event before it."""

    event: int


@dataclass(frozen=True, eq=False)
class Open:
    """The name and fields of an object that has more of them."""

    name: str
    about: str
    fields: Mapping[str, type]


EVENT = Open("Happened", "Something that happened; what else it has depends on its kind.", {"event": str, "seq": int})
Happened = Annotated[dict[str, Any], EVENT]
