"""Intents: what is signed, and what a browser is asked for it."""

from typing import Any

from pydantic import Field

from deskyard.control.api.forms.base import Form

# What one signature can name, in characters.
MOST_TARGET = 5000


class SignedIntent(Form):
    """An intent with a passkey's answer to it."""

    intent: dict[str, Any]
    credential: dict[str, Any]


class Signed(Form):
    """An admin's signature; a key with the scope `admin` needs none."""

    intent: SignedIntent | None = None


class Destroy(Form):
    """Leave to destroy a desktop; a key with the scope `desktops:destroy` needs none."""

    intent: SignedIntent | None = None


class WantedIntent(Form):
    """The kind and the target of an operation that somebody wants to sign."""

    kind: str = Field(max_length=60)
    target: str = Field(max_length=MOST_TARGET)


class IntentToSign(Form):
    """An intent, the sentence that a person reads, and what the browser's passkey is asked."""

    intent: dict[str, Any]
    text: str
    public_key: dict[str, Any]
