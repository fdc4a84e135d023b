"""The questions to a provider: what it is (discovery), who somebody is (tokens, userinfo), with which keys it signs.

No redirect is followed, no answer is longer than a megabyte, and of an answer nothing but what it is asked for is used.
"""

import base64
import hashlib
import json
import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import urllib3

from deskyard.control.identity import token
from deskyard.control.identity.declared import Declared, is_safe
from deskyard.control.identity.refusal import away, refused
from deskyard.host.deadline import Deadline

SECONDS = 10.0
MOST_BYTES = 1 << 20
KEPT_SECONDS = 3600.0
# A token that names an unknown key makes the keys be asked for again; not by everybody who sends one.
KEYS_AGAIN_SECONDS = 10.0
DISCOVERY = "/.well-known/openid-configuration"
OFFLINE = "offline_access"
BASIC, POST = "client_secret_basic", "client_secret_post"
ERROR = re.compile(r"[a-z_]{1,60}\Z")


@dataclass
class Grant:
    """A provider's last grant, with which it is asked again about somebody; the tokens are for this process alone."""

    subject: str
    nonce: str
    access: str | None = field(repr=False)
    refresh: str | None = field(repr=False)


@dataclass
class Provider:
    """A declared provider; `redirect` is where it sends browsers back to."""

    declared: Declared
    redirect: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _about: dict[str, Any] = field(default_factory=dict)
    _keys: list[dict[str, Any]] = field(default_factory=list)
    _fresh: Deadline = field(default_factory=lambda: Deadline(0))
    _keys_again: Deadline = field(default_factory=lambda: Deadline(0))

    def __post_init__(self) -> None:
        context = ssl.create_default_context(cadata=self.declared.authorities or None)
        timeout = urllib3.Timeout(total=SECONDS)
        self._pool = urllib3.PoolManager(ssl_context=context, timeout=timeout, retries=False)

    def address(self, state: str, nonce: str, verifier: str) -> str:
        """Where a browser goes to sign in."""
        endpoint = self._endpoint("authorization_endpoint")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.declared.client,
            "redirect_uri": self.redirect,
            "scope": " ".join(self.declared.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        # Without that it counts nothing (Core 11).
        asked |= {"prompt": "consent"} if OFFLINE in self.declared.scopes else {}
        found = urlsplit(endpoint)
        query = [pair for pair in parse_qsl(found.query, keep_blank_values=True) if pair[0] not in asked]
        return found._replace(query=urlencode([*query, *asked.items()]), fragment="").geturl()

    def require_issuer(self, issuer: str | None) -> None:
        """Raise `Refusal` for an answer that says it is another's (RFC 9207)."""
        needed = self._discovered().get("authorization_response_iss_parameter_supported") is True
        if issuer != self.declared.issuer and (needed or issuer is not None):
            raise refused("the answer is of another provider")

    def who(self, code: str, verifier: str, nonce: str) -> tuple[dict[str, Any], Grant]:
        """Who somebody is, by the code that their browser brought back, and what to ask with again."""
        asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect}
        answer = self._tokens({**asked, "code_verifier": verifier}, "takes this answer no more: it was used, or is old")
        given = answer.get("id_token")
        if not isinstance(given, str):
            raise away("the provider gave no ID Token")
        found = self._verified(given, nonce)
        grant = Grant(found["sub"], nonce, _text(answer, "access_token"), _text(answer, "refresh_token"))
        return self._with_userinfo(found, given, grant.access), grant

    def can_be_asked(self, grant: Grant) -> bool:
        """Whether there is anything to ask again with."""
        return grant.refresh is not None or (grant.access is not None and self._has_userinfo())

    def again(self, grant: Grant) -> dict[str, Any]:
        """Who somebody is by now; raises `Refusal` where the provider says so no more.

        What it says is of now alone: a group that it does not name again is lost.
        """
        given, found = None, {"sub": grant.subject}
        if grant.refresh is not None:
            asked = {"grant_type": "refresh_token", "refresh_token": grant.refresh}
            answer = self._tokens(asked, "says no more that somebody is signed in")
            # Kept whatever fails from here on: a token that gave another may count no more.
            grant.refresh = _text(answer, "refresh_token") or grant.refresh
            grant.access, given = _text(answer, "access_token"), _text(answer, "id_token")
        if given is not None:
            found = self._verified(given, grant.nonce, refreshed=True)
        if found["sub"] != grant.subject:
            raise refused("the provider tells of somebody else")
        return self._with_userinfo(found, given, grant.access)

    def _verified(self, given: str, nonce: str, *, refreshed: bool = False) -> dict[str, Any]:
        expected = token.Expected(self.declared.issuer, self.declared.client, nonce, refreshed)
        try:
            return token.verified(given, self._published(), expected)
        except token.UnknownKey:
            return token.verified(given, self._published(again=True), expected)

    def _with_userinfo(self, found: dict[str, Any], given: str | None, access: str | None) -> dict[str, Any]:
        """The claims of an ID Token with those of userinfo, if there is any."""
        if access is None or not self._has_userinfo():
            return found
        if given is not None:
            token.require_together(found, access, given)
        shown = self._userinfo(access, found["sub"])
        # A mail and whether it is verified are of one source.
        mail = ("email", "email_verified") if "email" in found else ()
        return {**{name: value for name, value in shown.items() if name not in mail}, **found}

    def _has_userinfo(self) -> bool:
        return "userinfo_endpoint" in self._discovered()

    def _userinfo(self, access: str, subject: str) -> dict[str, Any]:
        """The claims that the scopes ask for, shown here where a code was exchanged (Core 5.4)."""
        headers = {"Authorization": f"Bearer {access}"}
        status, shown = self._ask("GET", self._endpoint("userinfo_endpoint"), headers=headers)
        if status == 401:
            raise refused("the provider's token counts no more")
        if status != 200:
            raise away(f"the provider does not tell who it is: status {status}")
        if shown.get("sub") != subject:
            raise refused("the provider tells of somebody else")
        return shown

    def _tokens(self, form: dict[str, str], over: str) -> dict[str, Any]:
        """The tokens for a grant; `over` says what it is that counts no more."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        methods = self._discovered().get("token_endpoint_auth_methods_supported") or [BASIC]
        if self.declared.secret and BASIC in methods:
            # Encoded before, as RFC 6749 (2.3.1) has it.
            pair = f"{quote_plus(self.declared.client)}:{quote_plus(self.declared.secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = self.declared.client
            form |= {"client_secret": self.declared.secret} if self.declared.secret else {}
        status, answer = self._ask("POST", self._endpoint("token_endpoint"), urlencode(form).encode(), headers)
        if status == 200:
            return answer
        error = str(answer.get("error", ""))
        said = f": {error}" if ERROR.match(error) else ""
        if error == "invalid_grant":
            raise refused(f"the provider {over}")
        raise away(f"the provider refuses Mission Control{said} (status {status})")

    def _discovered(self) -> dict[str, Any]:
        with self._lock:
            if not self._about or self._fresh.is_over:
                found = self._get(self.declared.issuer.rstrip("/") + DISCOVERY)
                if found.get("issuer") != self.declared.issuer:
                    raise away("the provider says that it is another issuer than was declared")
                self._about, self._keys, self._fresh = found, [], Deadline(KEPT_SECONDS)
            return self._about

    def _published(self, *, again: bool = False) -> list[dict[str, Any]]:
        address = self._endpoint("jwks_uri")
        with self._lock:
            if not self._keys or (again and self._keys_again.is_over):
                found = self._get(address).get("keys")
                if again:
                    self._keys_again = Deadline(KEYS_AGAIN_SECONDS)
                self._keys = [key for key in found if isinstance(key, dict)] if isinstance(found, list) else []
            return self._keys

    def _endpoint(self, name: str) -> str:
        found = self._discovered().get(name)
        if not isinstance(found, str) or not is_safe(found, self.declared.issuer):
            raise away(f"the provider's {name} is missing, or no https address")
        return found

    def _get(self, address: str) -> dict[str, Any]:
        status, found = self._ask("GET", address)
        if status != 200:
            raise away(f"the provider does not say what it is: status {status}")
        return found

    def _ask(
        self, method: str, address: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        try:
            answer = self._pool.request(
                method,
                address,
                body=body,
                headers={"Accept": "application/json", "User-Agent": "Deskyard", **(headers or {})},
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            try:
                content = answer.read(MOST_BYTES + 1)
            finally:
                answer.close()
            found = json.loads(content) if len(content) <= MOST_BYTES else None
        except urllib3.exceptions.HTTPError as error:
            raise away(f"the provider does not answer ({type(error).__name__})") from error
        except (ValueError, RecursionError):
            found = None
        if answer.status == 401 and not isinstance(found, dict):  # which userinfo says without a word (RFC 6750)
            return answer.status, {}
        if not isinstance(found, dict):
            raise away(f"the provider's answer is not what OpenID Connect has: status {answer.status}")
        return answer.status, found


def _text(answer: Mapping[str, Any], name: str) -> str | None:
    found = answer.get(name)
    return found if isinstance(found, str) and found else None
