"""The declared keys of an owner: names, and values that Pulumi has encrypted; none is ever shown."""

import re
from typing import Any

from pydantic import Field, ValidationError

from deskyard.model.base import DNS_LABEL, Declaration

MAX_KEYS = 64
HOW = "./inv desktop.set-key WORKSPACE NAME"


class Encrypted(Declaration):
    """A secret of Pulumi, as it stands in the stack file."""

    secure: str = Field(
        pattern=r"^v[0-9]+:", repr=False, description="The cipher text, as `desktop.set-key` or Pulumi wrote it."
    )


def encrypted(keys: Any) -> Any:
    """The keys as they are, if each has a good name and is encrypted; raises `ValueError` with `reason -> remedy`."""
    if keys is None or not isinstance(keys, dict):
        raise ValueError(f"must map names to encrypted values -> take it out of the file, and use {HOW}")
    if isinstance(keys.get("secure"), str):
        raise ValueError(f"is encrypted as a whole, so nobody sees which keys there are -> set each with {HOW}")
    for name, value in keys.items():
        if not isinstance(name, str) or not re.match(DNS_LABEL, name):
            raise ValueError("has a name that is no DNS label -> choose a name such as 'anthropic'")
        try:
            Encrypted.model_validate(value)
        except ValidationError:
            remedy = f"take it out of the file, make a new one where it came from, and use {HOW}"
            raise ValueError(f"holds {name!r} in plain text -> {remedy}") from None
    return keys
