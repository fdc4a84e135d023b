"""Mission Control as programs drive it with the SDK; the API's own OpenAPI document says what there is to be driven."""

import asyncio
import inspect
import runpy
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl, MissionControl, forms
from deskyard_sdk.sync import Loop

from tests.control.lab import EVERYTHING, WAIT_SECONDS, Lab

# What browsers and supervisors call: signing in with a passkey, and whether it lives.
NOT_FOR_PROGRAMS = (
    "/api/enrol",
    "/api/sign-",
    "/api/intents",
    "/healthz",
    "/readyz",
    "/api/healthz",
    "/api/readyz",
    "/{path}",
)
EXAMPLE = Path(__file__).parents[2] / "examples/control/task.py"
FORMS = {"DesktopState": "Desktop", "Fleet": "FleetAnswer"}
ARGUMENTS = {
    "rules": [{"kind": "x", "enabled": True, "number": 1}],
    "micros_per_hour": {"free": 1},
    "selector": {"workspace": "lab"},
    "desktops": [{"name": "first"}],
    "verb": "up",
    "sent": {"conversationId": "cv_1", "operationId": "op_1", "messageId": "ms_1"},
}


def twin(mission: Lab, *scopes: str) -> AsyncMissionControl:
    """The SDK on the web process's socket."""
    client = httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(verify=False, uds=str(mission.folder.web_socket)),
        base_url="http://mission.localhost:9443",
        headers={"Authorization": f"Bearer {mission.key(*(scopes or EVERYTHING))}"},
        timeout=60,
    )
    return AsyncMissionControl(client, None)


@pytest.fixture
def control(mission: Lab) -> Iterator[MissionControl]:
    found = MissionControl(Loop(), twin(mission))
    yield found
    found.close()


def test_a_program_creates_tasks_and_destroys_a_desktop(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "other")
    done = control.wait(control.create("lab", "first", first_task="say hello"))
    assert (done["state"], done["desktopId"]) == ("done", "lab.first")
    mission.declare("lab", "first")
    sent = control.say("lab.first", "and now this")
    assert control.answer(sent) == "I heard: and now this"
    assert next(message["text"] for message in control.messages(sent["conversationId"])) == "and now this"
    assert [desktop["id"] for desktop in control.desktops(q="FIRST")] == ["lab.first"]
    for work in (control.stop("lab.first"), control.start("lab.first"), control.restart("lab.first")):
        control.wait(work)
    control.wait(control.destroy("lab.first"))
    assert mission.effects("lab.first").count("end") == 7


def test_a_program_bounds_machine_time_and_measured_bytes_each_by_itself(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "first")
    mission.link.execute("update workspace set egress = 'locked'")
    for micros, known in ((5, (5, 6)), (None, (0, 6))):
        (budget,) = control.set_budget("lab", micros, bytes_per_month=6)
        assert (budget["microsPerMonth"], budget["bytesPerMonth"]) == known
    assert control.set_budget("lab", None) == []


def test_a_program_changes_rules_of_alerts_and_prices_only_as_it_has_read_them(
    mission: Lab, control: MissionControl
) -> None:
    rule = next(each for each in control.alert_rules() if each["kind"] == "desktop.not-ready")
    same = {name: rule[name] for name in ("kind", "enabled", "number")}
    (price,) = control.set_prices({"free": 1})
    control.set_alert_rules([same], as_of=rule["changedAt"])
    control.set_prices({"free": 2}, as_of=price["changedAt"])
    with pytest.raises(DesktopError, match="it was changed at"):
        control.set_alert_rules([same], as_of=rule["changedAt"])
    with pytest.raises(DesktopError, match="it was changed at") as refused:
        control.set_prices({"free": 3}, as_of=price["changedAt"])
    assert refused.value.status == 412
    assert control.prices()[0]["microsPerHour"] == 2


@pytest.mark.parametrize("goes_well", [True, False])
def test_the_example_destroys_its_desktop_whatever_happens(goes_well: bool) -> None:
    done = []

    class Played:
        def __getattr__(self, name: str) -> Any:
            def call(*args: Any) -> str:
                done.append(name)
                if name == "answer" and not goes_well:
                    raise DesktopError("agent", "", "is silent", "ask again")
                return name

            return call

    run = runpy.run_path(str(EXAMPLE))["run"]
    if goes_well:
        assert run(Played(), "lab", "say hello") == "answer"
    else:
        with pytest.raises(DesktopError, match="is silent"):
            run(Played(), "lab", "say hello")
    assert done == ["create", "wait", "say", "answer", "destroy", "wait"]


def test_the_audit_is_exported_from_a_line_on(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "first")
    for _ in range(2):
        done = control.wait(control.restart("lab.first"))
        mission.until("select 1 from audit_entry where detail ->> 'operation' = %s", [done["id"]])
    exported = list(control.export_audit())
    assert [line["number"] for line in exported] == list(range(1, len(exported) + 1))
    # To read it is a line of its own.
    assert exported == list(control.audit())[::-1][: len(exported)]
    assert list(control.export_audit(after=1))[: len(exported) - 1] == exported[1:]
    reader = MissionControl(Loop(), twin(mission, "read"))
    with pytest.raises(DesktopError) as refused:
        list(reader.export_audit())
    assert refused.value.status == 403
    reader.close()


def test_the_audit_is_checked_part_by_part_until_its_end() -> None:
    parts = [
        {"ok": True, "entries": 2, "head": "a" * 64, "problem": None, "more": True},
        {"ok": False, "entries": 3, "head": "b" * 64, "problem": "line 4 was changed", "more": False},
    ]
    asked: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        return httpx.Response(200, json=parts[len(asked) - 1])

    async def verdict() -> Any:
        client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://mission")
        async with AsyncMissionControl(client, None) as sdk:
            return await sdk.verify_audit()

    assert asyncio.run(verdict()) == parts[1]
    assert asked == [{"after": "0"}, {"after": "2", "head": "a" * 64}]


def test_a_list_is_read_to_its_end(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", *(f"d{number:03}" for number in range(130)))
    assert [desktop["name"] for desktop in control.desktops("lab")] == [f"d{number:03}" for number in range(130)]


def test_what_fails_is_raised_with_its_remedy(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "fails")
    with pytest.raises(DesktopError) as failed:
        control.wait(control.start("lab.fails"))
    assert (failed.value.field, failed.value.remedy) == ("machine", "look at it")
    with pytest.raises(DesktopError) as refused:
        control.desktop("lab.nothing")
    assert (refused.value.status, refused.value.field) == (404, "desktop")


def test_a_link_is_for_a_person_or_for_a_program_with_scopes(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "first")
    assert control.link("lab.first") == "https://lab.localhost/#ticket"
    assert control.link("lab.first", "agent", ["see", "act"]) == "https://lab.localhost/#ticket"
    wanted = mission.link.execute("select input from operation where kind = 'desktop.session' order by created_at")
    assert [row["input"] for row in wanted] == [
        {"mode": "drive", "scopes": None, "seal_to": None},
        {"mode": "agent", "scopes": ["see", "act"], "seal_to": None},
    ]
    with pytest.raises(DesktopError, match="are for an agent alone"):
        control.link("lab.first", "drive", ["see"])


def test_a_request_that_was_cut_is_sent_again_and_done_once(mission: Lab) -> None:
    mission.declare("lab", "first")

    class Cut(httpx.AsyncHTTPTransport):
        """Loses the first answer to each request that wants something."""

        lost = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if request.method == "POST" and not Cut.lost:
                await answer.aread()
                Cut.lost += 1
                raise httpx.ReadError("cut")
            return answer

    async def stop() -> str:
        async with twin(mission) as sdk:
            sdk._client._transport = Cut(uds=str(mission.folder.web_socket))
            return (await sdk.wait(await sdk.stop("lab.first")))["state"]

    assert asyncio.run(stop()) == "done"
    assert Cut.lost == 1
    assert mission.effects("lab.first") == ["begin", "end"]


def test_changes_are_heard_and_gone_on_with(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "first")

    async def heard() -> tuple[str, str]:
        async with twin(mission) as sdk:
            news: AsyncGenerator[Any, None] = sdk.events(after="0-0", desktop="lab.first")
            first = await anext(news)
            await news.aclose()
            mission.declare("lab", "first", state="stopped")
            news = sdk.events(after=first["id"], desktop="lab.first")
            second = await anext(news)
            await news.aclose()
            return first["data"]["state"], second["data"]["state"]

    # An event tells of its subject as it is when it is sent.
    assert asyncio.run(heard())[1] == "stopped"


def test_changes_after_a_place_that_is_not_kept_end_at_once(mission: Lab) -> None:
    mission.declare("lab", "first")

    async def heard() -> list[Any]:
        async with twin(mission) as sdk:
            return [news async for news in sdk.events(after=f"{10**9}-{10**9}")]

    assert asyncio.run(asyncio.wait_for(heard(), WAIT_SECONDS)) == []


def test_an_operation_that_is_not_over_in_time_says_why(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    begun = control.start("lab.blocks")
    mission.until("select 1 from operation_log where operation_id = %s", [begun["id"]])
    with pytest.raises(DesktopError, match="is running after 1 s"):
        control.wait(begun, seconds=1)
    mission.open("blocks")
    assert control.wait(begun)["state"] == "done"


def test_each_call_of_the_api_has_a_method(owner: httpx.Client) -> None:
    document = owner.get("/api/openapi.json").json()
    offered = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if not path.startswith(NOT_FOR_PROGRAMS)
    }
    called = asyncio.run(_called(offered))
    # To destroy has two names for people's sake; keys and persons are for a passkey to sign, which no program has.
    signed = {("POST", "/api/keys"), ("POST", "/api/people"), ("POST", "/api/people/{id}/link")}
    signed.add(("DELETE", "/api/me/passkeys/{id}"))
    twice = {("DELETE", "/api/desktops/{id}"), ("DELETE", "/api/workspaces/{id}")}
    assert offered - called == {*twice, ("DELETE", "/api/people/{id}"), *signed}


def test_answers_have_the_fields_of_the_document(owner: httpx.Client) -> None:
    schemas = owner.get("/api/openapi.json").json()["components"]["schemas"]
    for name in (
        "Operation",
        "LogLine",
        "DesktopState",
        "Workspace",
        "Sent",
        "Conversation",
        "Message",
        "Tool",
        "Question",
        "QuestionOption",
        "Claimed",
        "Fleet",
        "Alert",
        "Approval",
        "Moment",
    ):
        fields = getattr(forms, name).__annotations__
        assert set(fields) == set(schemas[FORMS.get(name, name)]["properties"]), name


def test_both_forms_of_the_sdk_have_the_same_calls() -> None:
    calls = {name for name in dir(AsyncMissionControl) if not name.startswith("_")}
    assert calls == {name for name in dir(MissionControl) if not name.startswith("_")}


async def _called(offered: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The calls that the SDK's methods make, each called once."""
    seen: set[tuple[str, str]] = set()
    paths = sorted({path for _, path in offered}, key=lambda path: path.count("{"))

    def answer(request: httpx.Request) -> httpx.Response:
        parts = request.url.path.split("/")
        for path in paths:
            names = path.split("/")
            if len(names) == len(parts) and all(
                name == part or name[:1] == "{" for name, part in zip(names, parts, strict=True)
            ):
                seen.add((request.method, path))
                break
        return httpx.Response(200, json={"state": "done", "items": [], "id": "op_1", "result": {"link": "x:"}})

    transport = httpx.MockTransport(answer)
    async with AsyncMissionControl(httpx.AsyncClient(transport=transport, base_url="https://lab"), None) as sdk:
        for name, method in inspect.getmembers(sdk, inspect.isroutine):
            if name.startswith("_") or name in ("connect", "close", "open"):
                continue
            wanted = [
                ARGUMENTS.get(parameter.name, "x")
                for parameter in inspect.signature(method).parameters.values()
                if parameter.default is parameter.empty
            ]
            found = method(*wanted)
            if inspect.isasyncgen(found):
                async for _ in found:
                    pass
            else:
                await found
    return seen


def test_who_sets_a_quota_hears_of_all_in_however_many_parts(mission: Lab, control: MissionControl) -> None:
    mission.declare("lab", "first")
    query = """insert into quota (subject, desktops, actor)
        select 'workspace:w' || n, 1, 'x' from generate_series(1, %s) n"""
    mission.link.execute(query, [1003])
    found = control.set_quota("workspace:lab", desktops=7)
    assert len(found) == len({quota["subject"] for quota in found}) == 1004
    assert control.quotas() == found
