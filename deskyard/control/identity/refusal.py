"""Why nobody is signed in, with the HTTP status that the web process answers."""

from http import HTTPStatus

from deskyard.errors import DeskyardError

BEGIN_AGAIN = "begin again at the page of signing in"


class Refusal(DeskyardError):
    """The refusal to sign somebody in; the reason holds nothing that is secret."""

    status = HTTPStatus.UNAUTHORIZED


class NotHere(Refusal):
    """The provider knows them, and Mission Control does not."""

    status = HTTPStatus.FORBIDDEN


class Away(Refusal):
    """The provider does not answer, or not as OpenID Connect has it."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


def away(reason: str) -> Away:
    """The error of a provider that cannot be asked."""
    return Away("provider", None, reason, "sign in with your passkey, or try again later")


def refused(reason: str) -> Refusal:
    """The error of an answer that is not believed."""
    return Refusal("sign-in", None, reason, BEGIN_AGAIN)
