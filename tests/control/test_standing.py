"""Who is signed in by a provider is asked for again: what it says no more is over, and nobody else has its tokens."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest

from deskyard.control.identity.declared import Declared, Rule
from deskyard.control.identity.provider import Grant, Provider
from deskyard.control.identity.refusal import Away, Refusal
from deskyard.control.identity.standing import Standings
from deskyard.control.store.cluster import OWNER
from deskyard.control.store.connection import connect
from deskyard.host.deadline import Deadline
from tests.control import openid_double
from tests.control.lab import WAIT_SECONDS, Lab
from tests.control.openid_double import CLIENT, SECRET, Double
from tests.control.people import enrolled
from tests.control.test_identity import Visitor
from tests.control.test_provider import NONCE, REDIRECT, STATE, VERIFIER

RULES = tuple(map(Rule.parsed, ("group:platform=operator", "domain:example.org=viewer@lab")))
BEA: dict[str, Any] = {"email": "bea@example.net", "email_verified": True, "groups": ["platform"]}
# Of the process: short, so that a test need not wait for long.
RECHECK_SECONDS = 4.0
Sign = Callable[..., Grant]


@pytest.fixture(scope="module")
def running() -> Iterator[Double]:
    with openid_double.running() as found:
        yield found


@pytest.fixture
def double(running: Double) -> Double:
    vars(running).update(vars(Double(running.server, running.key, running.kid)))
    return running


@pytest.fixture
def provider(double: Double) -> Provider:
    """A provider whose word counts for no time: everybody is due at once."""
    return Provider(Declared(double.issuer, CLIENT, SECRET, rules=RULES, recheck_seconds=1e-6), REDIRECT)


@pytest.fixture
def signs_in(provider: Provider, double: Double) -> Sign:
    def sign_in(**claims: Any) -> Grant:
        sent = double.sent_back(provider.address(STATE, NONCE, VERIFIER), "subject-1", **claims)
        return provider.who(sent["code"], VERIFIER, NONCE)[1]

    return sign_in


def test_a_refresh_token_asks_again_and_each_next_one_too(provider: Provider, double: Double, signs_in: Sign) -> None:
    double.refreshes = True
    grant = signs_in(**BEA)
    for groups in (["platform"], ["staff"]):
        double.claims = {"groups": groups}
        before = replace(grant)
        claims = provider.again(grant)
        assert (claims["groups"], claims["email"]) == (groups, "bea@example.net")
        assert grant.refresh not in (None, before.refresh)
        with pytest.raises(Refusal, match="says no more that somebody is signed in"):
            provider.again(before)


def test_without_a_refresh_token_userinfo_is_asked_and_nothing_of_before_counts(
    provider: Provider, double: Double, signs_in: Sign
) -> None:
    grant = signs_in(**BEA)
    assert grant.refresh is None and provider.can_be_asked(grant)
    double.userinfo = {"email": "bea@example.net", "email_verified": True}
    assert provider.again(grant) == {"sub": "subject-1", **double.userinfo}
    double.revoked = True
    with pytest.raises(Refusal, match="counts no more"):
        provider.again(grant)


@pytest.mark.parametrize(
    "lie",
    [
        {"claims": {"nonce": "another"}},
        {"claims": {"sub": "subject-2"}},
        {"claims": {"aud": "another"}},
        {"claims": {"iss": "https://login.example.org"}},
        {"userinfo": {"sub": "subject-2"}},
        {"algorithm": "none", "signs": ""},
    ],
    ids=str,
)
def test_an_answer_about_somebody_else_or_of_nobody_is_not_believed(
    provider: Provider, double: Double, signs_in: Sign, lie: dict[str, Any]
) -> None:
    double.refreshes = True
    grant = signs_in(**BEA)
    vars(double).update(lie)
    with pytest.raises(Refusal) as error:
        provider.again(grant)
    assert error.value.status == 401


def test_a_provider_that_is_away_says_nothing_of_anybody(provider: Provider, double: Double, signs_in: Sign) -> None:
    double.refreshes = True
    grant = signs_in(**BEA)
    double.away = True
    with pytest.raises(Away):
        provider.again(grant)


def test_offline_access_is_asked_for_with_consent(double: Double) -> None:
    for scopes, asked in ((("openid",), False), (("openid", "offline_access"), True)):
        address = Provider(Declared(double.issuer, CLIENT, SECRET, scopes=scopes), REDIRECT).address("s", "n", "v")
        assert ("prompt=consent" in address) == asked


def test_tokens_are_in_no_text_of_what_holds_them(double: Double, signs_in: Sign) -> None:
    double.refreshes = True
    grant = signs_in(**BEA)
    assert grant.refresh and grant.refresh not in repr(grant)


class Kept:
    """Standings in this process, and a session for each person who signs in."""

    def __init__(self, mission: Lab, provider: Provider) -> None:
        self.mission = mission
        self.standings = Standings(provider, partial(connect, mission.url(OWNER)))

    def begin(self, grant: Grant, by_rule: bool = True) -> str:
        """A session of Bea, whom a rule or the host made; its name."""
        link = self.mission.link
        query = (
            "insert into person (id, name, role, by_rule) values ('pe_b', 'bea', 'operator', %s) on conflict do nothing"
        )
        link.execute(query, [by_rule])
        query = (
            "insert into identity (issuer, subject, person_id) values (%s, 'subject-1', 'pe_b') on conflict do nothing"
        )
        link.execute(query, [self.standings.provider.declared.issuer])
        name = self.standings.keep("pe_b", grant)
        assert name is not None
        link.execute(
            "insert into session (id, token_hash, person_id, agent, expires_at, confirmed_until, standing)"
            " values (%s, %s, 'pe_b', 'x', now() + interval '1 hour', now() - interval '1 hour', %s)",
            [f"se_{name}", name.encode(), name],
        )
        return name

    def session(self, name: str) -> dict[str, Any]:
        """The session of that name."""
        query = (
            "select *, confirmed_until > now() - interval '30 minutes' as confirmed from session where standing = %s"
        )
        found = self.mission.link.execute(query, [name]).fetchone()
        assert found is not None
        return found


@pytest.fixture
def kept(mission: Lab, provider: Provider) -> Kept:
    return Kept(mission, provider)


def test_who_is_confirmed_goes_on_and_what_a_rule_gives_now_counts_at_once(
    mission: Lab, kept: Kept, double: Double, signs_in: Sign
) -> None:
    double.refreshes = True
    name = kept.begin(signs_in(**BEA))
    double.claims = {"groups": [], "email": "bea@example.org"}
    for _ in range(2):
        kept.standings.look()
        found = kept.session(name)
        assert (found["ended_at"], found["confirmed"]) == (None, True)
    person = mission.link.execute("select role, workspaces, rule from person").fetchone()
    assert person == {"role": "viewer", "workspaces": ["lab"], "rule": "domain:example.org=viewer@lab"}


def test_who_is_of_no_rule_any_more_loses_all_sessions_by_the_provider_and_sees_nothing_by_a_passkey(
    mission: Lab, kept: Kept, double: Double, signs_in: Sign
) -> None:
    double.refreshes = True
    names = [kept.begin(signs_in(**BEA)) for _ in range(2)]
    mission.link.execute(
        "insert into session (id, token_hash, person_id, agent, expires_at) values ('p', 'p', 'pe_b', 'x', now())"
    )
    double.claims = {"groups": ["staff"]}
    kept.standings.look()
    assert [kept.session(name)["ended_at"] is not None for name in names] == [True, True]
    rows = mission.link.execute("select ended_at from session where id = 'p'").fetchall()
    assert rows == [{"ended_at": None}], "a passkey began it"
    person = mission.link.execute("select role, workspaces, rule from person").fetchone()
    assert person == {"role": "viewer", "workspaces": [], "rule": None}
    mission.until("select 1 from audit_entry where action = 'session.over' and target = 'bea'", [])
    asked = len(double.asked)
    kept.standings.look()
    assert len(double.asked) == asked, "who is signed out is asked for no more"


def test_a_person_of_the_host_loses_the_session_that_the_provider_revoked(
    mission: Lab, kept: Kept, double: Double, signs_in: Sign
) -> None:
    first, second = kept.begin(signs_in(), by_rule=False), kept.begin(signs_in())
    kept.standings.look()
    assert [kept.session(name)["ended_at"] for name in (first, second)] == [None, None]
    double.revoked = True
    kept.standings.look()
    assert kept.session(first)["ended_at"] is not None
    person = mission.link.execute("select role, workspaces from person").fetchone()
    assert person == {"role": "operator", "workspaces": None}


def test_who_was_removed_or_signed_out_is_asked_for_no_more(
    mission: Lab, kept: Kept, double: Double, signs_in: Sign
) -> None:
    name = kept.begin(signs_in(), by_rule=False)
    mission.link.execute("update session set ended_at = now()")
    asked = len(double.asked)
    kept.standings.look()
    assert len(double.asked) == asked
    assert not kept.session(name)["confirmed"]


@pytest.mark.parametrize(
    "lack",
    [{"away": True}, {"tells": False}, {"named": "not-published-yet"}],
    ids=["all of it", "userinfo, once the refresh token was changed", "its newest key"],
)
def test_a_provider_that_is_away_ends_nothing_and_confirms_nothing(
    kept: Kept, double: Double, signs_in: Sign, lack: dict[str, Any]
) -> None:
    double.refreshes = True
    name, well = kept.begin(signs_in(), by_rule=False), {key: getattr(double, key) for key in lack}
    vars(double).update(lack)
    kept.standings.look()
    assert (kept.session(name)["ended_at"], kept.session(name)["confirmed"]) == (None, False)
    vars(double).update(well)
    kept.standings.look()
    assert kept.session(name)["confirmed"]


def test_where_the_provider_gives_nothing_to_ask_with_nobody_is_kept(
    kept: Kept, double: Double, signs_in: Sign
) -> None:
    double.shows = False
    assert kept.standings.keep("pe_b", signs_in()) is None


@pytest.fixture
def visitor(mission: Lab, double: Double) -> Iterator[Visitor]:
    """A browser before the processes as they run, whose provider is asked again soon."""
    declared = Declared(double.issuer, CLIENT, SECRET, "Example", rules=RULES, recheck_seconds=RECHECK_SECONDS)
    declared.checked().save(mission.folder.provider)
    mission.identity()
    try:
        with mission.client() as client:
            yield Visitor(client, double)
    finally:
        mission.end("identity")
        mission.folder.provider.unlink()


def test_a_session_is_over_soon_after_the_group_was_lost_at_the_provider(
    mission: Lab, double: Double, visitor: Visitor
) -> None:
    double.refreshes = True
    assert visitor.signs_in("subject-1", **BEA).status_code == 200
    # Asked once more, and all the same as before; a busy machine may ask late, until when nobody is let in.
    mission.until("select 1 from session where confirmed_until > created_at + make_interval(secs => 5)", [])

    def is_operator() -> bool:
        answer = visitor.call("GET", "/api/me")
        return answer.status_code == 200 and answer.json()["person"]["role"] == "operator"

    assert Deadline(WAIT_SECONDS).wait_for(is_operator, 0.1), mission.log("identity")
    double.claims = {"groups": []}
    mission.until("select 1 from session where ended_at is not null", [])
    assert visitor.call("GET", "/api/me").status_code == 401
    texts = [mission.log(name) for name in ("identity", "web")]
    rows = mission.link.execute("select session::text from session union all select detail::text from audit_intake")
    texts += [row["session"] for row in rows]
    assert not [token for token in double.given for text in texts if token in text]


def test_a_session_counts_no_longer_than_it_was_confirmed_and_again_once_it_is(
    mission: Lab, double: Double, visitor: Visitor
) -> None:
    double.refreshes = True
    assert visitor.signs_in("subject-1", **BEA).status_code == 200
    with mission.client() as client:
        ada = enrolled(mission, client, "ada", "admin")
        double.away = True
        mission.until("select 1 from session where confirmed_until < now()", [])
        assert visitor.call("GET", "/api/me").status_code == 401
        assert [found["person"] for found in ada.call("GET", "/api/sessions").json()["items"]] == ["ada"]
    double.away = False

    def is_let_in() -> bool:
        return visitor.call("GET", "/api/me").status_code == 200

    assert Deadline(WAIT_SECONDS).wait_for(is_let_in, 0.1), mission.log("identity")


def test_a_session_is_over_by_itself_where_the_provider_gives_nothing_to_ask_with(
    mission: Lab, double: Double, visitor: Visitor
) -> None:
    double.shows = False
    answer: httpx.Response = visitor.signs_in("subject-1", **BEA)
    assert answer.status_code == 200
    mission.until("select 1 from session where standing is null and confirmed_until < now()", [])
    assert visitor.call("GET", "/api/me").status_code == 401
