"""The base of every form: camel case, nothing unknown, parts of lists, and errors."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from deskyard.model.base import DnsLabel

T = TypeVar("T")

Label = Annotated[DnsLabel, Field(max_length=63)]


class Form(BaseModel):
    """JSON in camel case; what is not known is refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Page(Form, Generic[T]):
    """A part of a list."""

    items: list[T]
    next_cursor: str | None = Field(None, description="`after` of the next part; none: this is the last.")
    total: int | None = Field(None, description="How many there are in all, with these filters.")


class Trouble(Form):
    """An error: what is wrong, and what to do."""

    field: str
    value: str
    reason: str
    remedy: str


class ProblemDetails(Form):
    """A refusal or a failure, as RFC 9457 has it, with the four parts of every Deskyard error."""

    type: str
    title: str
    status: int
    detail: str
    field: str
    value: str
    reason: str
    remedy: str
    request_id: str
