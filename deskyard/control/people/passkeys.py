"""Passkeys: what a browser is asked for, and whether its answer is true."""

import json
from dataclasses import dataclass
from typing import Any

import webauthn
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url, parse_client_data_json
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from deskyard.errors import ConfigError

TIMEOUT_MS = 120_000
VERIFIED = UserVerificationRequirement.REQUIRED


@dataclass(frozen=True)
class Passkeys:
    """The passkeys of one origin; its host name alone is the relying party."""

    origin: str

    @property
    def host(self) -> str:
        """The relying party's id."""
        return self.origin.partition("://")[2].partition(":")[0]

    def creation(self, person_id: str, name: str, challenge: bytes, known: list[bytes]) -> dict[str, Any]:
        """Options for a new passkey of a person."""
        options = webauthn.generate_registration_options(
            rp_id=self.host,
            rp_name="Deskyard Mission Control",
            user_id=person_id.encode(),
            user_name=name,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=VERIFIED
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=credential) for credential in known],
        )
        return dict(json.loads(webauthn.options_to_json(options)))

    def request(self, challenge: bytes, allowed: list[bytes] | None = None) -> dict[str, Any]:
        """Options for a signature by a passkey: by one of these, or by any that the browser has for this origin."""
        options = webauthn.generate_authentication_options(
            rp_id=self.host,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            user_verification=VERIFIED,
            allow_credentials=[PublicKeyCredentialDescriptor(id=credential) for credential in allowed or []],
        )
        return dict(json.loads(webauthn.options_to_json(options)))

    def registered(self, credential: Any, challenge: bytes) -> tuple[bytes, bytes]:
        """Id and public key of a new passkey; raises `ConfigError` unless it answers just this challenge, here."""
        try:
            found = webauthn.verify_registration_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.host,
                expected_origin=self.origin,
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError) as error:
            raise _refused(error) from error
        return found.credential_id, found.credential_public_key

    def verify(self, credential: Any, challenge: bytes, public_key: bytes) -> None:
        """Raise `ConfigError` unless the passkey with this public key signed just this challenge, here."""
        try:
            webauthn.verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.host,
                expected_origin=self.origin,
                credential_public_key=public_key,
                # Passkeys that are kept in several places count nothing; a signature counts once by our own record.
                credential_current_sign_count=0,
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError) as error:
            raise _refused(error) from error


def credential_id(credential: Any) -> bytes:
    """The id in an answer; raises `ConfigError` if it has none."""
    try:
        return base64url_to_bytes(credential["id"])
    except (TypeError, KeyError, ValueError) as error:
        raise _refused(error) from error


def challenge_of(credential: Any) -> bytes:
    """The challenge that an answer claims to answer."""
    try:
        return parse_client_data_json(base64url_to_bytes(credential["response"]["clientDataJSON"])).challenge
    except (TypeError, KeyError, ValueError, WebAuthnException) as error:
        raise _refused(error) from error


def bytes_of(written: str) -> bytes:
    """The id of a passkey that is written as browsers do; raises `ConfigError` for what is none."""
    return credential_id({"id": written})


def written(value: bytes) -> str:
    """Bytes as browsers write them."""
    return bytes_to_base64url(value)


def _refused(error: Exception) -> ConfigError:
    return ConfigError("passkey", None, f"is refused: {error}", "try again, with a passkey of this site")
