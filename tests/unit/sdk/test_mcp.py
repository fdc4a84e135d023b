"""The MCP server on a desktop's files and processes: what a session's scopes allow, and what it is started with."""

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from deskyard_mcp.settings import read
from deskyard_sdk import DesktopError
from mcp import MCPError
from mcp_types import INVALID_PARAMS, ElicitRequestParams, ElicitResult

from deskyard.computer.work import entries
from deskyard.computer.work.part import Work
from deskyard.lab.changed_tests import imported
from tests.support.mcp_client import MODES, Tools, talk_within
from tests.support.sources import parsed
from tests.unit.computer.serving import home_of, served
from tests.unit.sdk.test_sdk import TICKET, Door

SDK = Path(__file__).resolve().parents[3] / "sdk"
TOKEN = "t" * 24


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with home_of(tmp_path) as home:
        yield Door(Work(home))


@pytest.fixture
def url(door: Door) -> Iterator[str]:
    with served([door]) as url:
        yield url


@pytest.mark.parametrize(
    ("scopes", "listed"),
    [
        (["see"], {"screenshot", "windows", "wait", "events", "clipboard", "elements", "applications"}),
        (
            ["act"],
            {"act", "click", "type", "key", "scroll", "window", "tile", "set_clipboard", "use_element", "launch"},
        ),
        (["files"], {"list_files", "read_file", "write_file"}),
        (["shell"], {"run", "start", "processes", "process"}),
    ],
)
def test_the_sessions_scopes_decide_which_tools_there_are(
    door: Door, url: str, scopes: list[str], listed: set[str]
) -> None:
    door.scopes = scopes

    async def use(tools: Tools) -> None:
        assert await tools.names() == listed
        resources = (await tools.client.list_resources()).resources
        screen = [f"deskyard://{name}" for name in ("screen", "windows", "events")]
        assert [str(resource.uri) for resource in resources] == (screen if scopes == ["see"] else [])
        templates = (await tools.client.list_resource_templates()).resource_templates
        processes = ["deskyard://processes/{id}"]
        assert [template.uri_template for template in templates] == (processes if scopes == ["shell"] else [])
        for name, scope in (("act", "act"), ("screenshot", "see"), ("run", "shell"), ("read_file", "files")):
            if scope not in scopes:
                refused = await tools.refusal(name)
                assert (refused["error"], refused["value"]) == ("tool", name)
                assert refused["remedy"].endswith(f"--scopes {scopes[0]},{scope}")

    talk_within(f"{url}/#{TICKET}", use)


@pytest.mark.parametrize("installed", ["1.2.3", ""])
def test_a_server_names_its_version_where_it_is_installed(
    url: str, monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    def found(package: str) -> str:
        if package != "deskyard-sdk" or not installed:
            raise metadata.PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(metadata, "version", found)

    async def use(tools: Tools) -> None:
        # The protocol's suite takes an empty one for none.
        expected = installed or "unknown"
        assert tools.client.server_info is not None and tools.client.server_info.version == expected

    talk_within(f"{url}/bare", use)


def test_who_may_not_see_acts_without_a_picture(door: Door, url: str) -> None:
    door.scopes = ["act"]

    async def use(tools: Tools) -> None:
        await tools("click", x=1, y=2, space="screen")
        assert "return" not in door.asked[-1]

    talk_within(f"{url}/#{TICKET}", use)


def test_tools_say_whether_they_change_anything(url: str) -> None:
    async def use(tools: Tools) -> None:
        listed = (await tools.client.list_tools()).tools
        hints = {tool.name: tool.annotations.read_only_hint for tool in listed if tool.annotations}
        looking = {"screenshot", "windows", "wait", "events", "clipboard", "elements", "applications"}
        looking |= {"list_files", "read_file", "processes"}
        assert {name for name, only in hints.items() if only} == looking
        assert len(hints) == len(listed) == 24
        assert all(tool.description for tool in listed)

    talk_within(f"{url}/bare", use)


def test_files_are_written_listed_and_read_in_parts_that_are_whole_characters(url: str) -> None:
    async def use(tools: Tools) -> None:
        text = "äöü" * 10
        written = await tools("write_file", path="a/b.txt", text=text)
        assert (written["type"], written["size"]) == ("file", 60)
        listed = await tools("list_files", path="a")
        assert [entry["path"] for entry in listed["entries"]] == [written["path"]]
        assert (listed["untrusted"], "left_out" in listed) == (["path"], False)
        read, start = "", 0
        while start < 60:
            part = await tools("read_file", path="a/b.txt", start=start, length=7)
            read, start = read + part["text"], part["next"]
        assert read == text
        assert (await tools("read_file", path="a/b.txt", start=1, length=2))["text"] == ""
        assert (await tools.refusal("write_file", path="a/b.txt", text="", overwrite=False))["status"] == 409
        assert (await tools.refusal("read_file", path="none"))["error"] == "path"

    talk_within(f"{url}/bare", use)


def test_what_is_no_text_is_refused(url: str, tmp_path: Path) -> None:
    async def use(tools: Tools) -> None:
        (tmp_path / "home/picture").write_bytes(b"\x89PNG\r\n")
        assert "UTF-8" in (await tools.refusal("read_file", path="picture"))["reason"]
        (tmp_path / "home/empty").touch()
        assert (await tools("read_file", path="empty"))["text"] == ""

    talk_within(f"{url}/bare", use)


def test_a_command_is_run_and_its_newest_output_told(url: str) -> None:
    async def use(tools: Tools) -> None:
        done = await tools("run", command="cat; echo no >&2; exit 3", stdin="in\n")
        assert (done["stdout"], done["stderr"], done["exit_code"]) == ("in\n", "no\n", 3)
        much = await tools("run", command="seq 100000")
        assert len(much["stdout"]) == 50_000 and much["stdout"].endswith("\n100000\n") and "left_out" in much
        assert (await tools("run", command=["sleep", "600"], timeout_seconds=0.2))["timed_out"]

    talk_within(f"{url}/bare", use)


def test_a_process_is_fed_read_on_and_ended(url: str) -> None:
    async def use(tools: Tools) -> None:
        started = await tools("start", command="while read line; do echo got $line; done", stdin=True)
        heard = await tools("process", id=started["id"], input="a\n", within_seconds=0.1)
        for _ in range(200):
            if heard["output"]:
                break
            heard = await tools("process", id=started["id"], within_seconds=0.1)
        assert (heard["output"], heard["running"], heard["next"]) == ("got a\n", True, 6)
        rest = {"offset": heard["next"], "within_seconds": 60}
        ended = await tools("process", id=started["id"], input="b\n", close_input=True, **rest)
        assert (ended["output"], ended["running"], ended["exit_code"]) == ("got b\n", False, 0)
        other = await tools("start", command=["sleep", "600"])
        assert other["event"] == 7
        assert (await tools("process", id=other["id"], signal="KILL", within_seconds=60))["signal"] == "SIGKILL"
        listed = await tools("processes")
        assert started["id"] in [process["id"] for process in listed["processes"]]
        assert (await tools.refusal("process", id="none"))["status"] == 404

    talk_within(f"{url}/bare", use)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_user_is_asked_before_what_they_want_to_be_asked_for(url: str, mode: str) -> None:
    answers = [ElicitResult(action="accept", content={"agree": True}), ElicitResult(action="decline")]
    answers += [ElicitResult(action="accept", content={"agree": False}), ElicitResult(action="cancel")]
    asked: list[str] = []

    async def user(context: object, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return answers.pop(0)

    async def use(tools: Tools) -> None:
        schema = next(tool.input_schema for tool in (await tools.client.list_tools()).tools if tool.name == "run")
        assert "command" in schema["properties"] and "agreement" not in schema["properties"]
        assert (await tools("run", command="echo yes"))["stdout"] == "yes\n"
        assert asked == ['May the agent use `run` of the desktop? {"command": "echo yes"}']
        for _ in range(3):
            assert (await tools.refusal("run", command="touch never"))["error"] == "approval"
        assert (await tools("list_files"))["entries"] == []
        assert (len(asked), answers) == (4, [])

    talk_within(f"{url}/bare", use, ask=["shell"], user=user, mode=mode)


def test_who_cannot_ask_the_user_does_nothing_that_they_want_to_be_asked_for(url: str) -> None:
    async def use(tools: Tools) -> None:
        with pytest.raises(MCPError, match="elicitation"):
            await tools("run", command="touch never")
        assert (await tools("list_files"))["entries"] == []

    talk_within(f"{url}/bare", use, ask=["shell"])


def test_a_folder_of_which_not_all_is_listed_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_ENTRIES", 1)

    async def use(tools: Tools) -> None:
        for name in "ab":
            await tools("write_file", path=f"many/{name}", text="")
        listed = await tools("list_files", path="many")
        assert (len(listed["entries"]), "left_out" in listed) == (1, True)

    talk_within(f"{url}/bare", use)


@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_and_a_resource_that_there_are_not_are_wrong_parameters(url: str, mode: str) -> None:
    async def use(tools: Tools) -> None:
        for asking, given in (
            (tools.client.read_resource("deskyard://none"), {"error": "uri", "uri": "deskyard://none"}),
            (tools.client.get_prompt("none"), {"error": "prompt", "value": "none"}),
        ):
            with pytest.raises(MCPError) as refused:
                await asking
            assert refused.value.error.code == INVALID_PARAMS
            assert given.items() <= refused.value.error.data.items()

    talk_within(f"{url}/bare", use, mode=mode)


def test_a_link_stands_in_the_environment_or_in_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "link"
    file.write_text("https://here/#ticket\n")
    file.chmod(0o600)
    assert read({"DESKYARD_LINK_FILE": str(file)}, http=False).link == "https://here/#ticket"
    settings = read({"DESKYARD_LINK": "https://here/#ticket", "DESKYARD_MCP_TOKEN": TOKEN}, http=True)
    assert settings.token == TOKEN
    assert "ticket" not in repr(settings) and TOKEN not in repr(settings)


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({}, "DESKYARD_LINK"),
        ({"DESKYARD_LINK_FILE": "/no/such"}, "DESKYARD_LINK_FILE"),
        ({"DESKYARD_LINK": "x"}, "DESKYARD_MCP_TOKEN"),
        ({"DESKYARD_LINK": "x", "DESKYARD_MCP_TOKEN": TOKEN[1:]}, "DESKYARD_MCP_TOKEN"),
        ({"DESKYARD_LINK": "x", "DESKYARD_MCP_TOKEN": TOKEN, "DESKYARD_MCP_ASK": "act,fly"}, "DESKYARD_MCP_ASK"),
        *(
            (
                {"DESKYARD_LINK": "x", "DESKYARD_MCP_TOKEN": TOKEN, "DESKYARD_MCP_WAKE_WITHIN": text},
                "DESKYARD_MCP_WAKE_WITHIN",
            )
            for text in ("soon", "-1", "nan", "inf")
        ),
    ],
)
def test_what_is_missing_is_named(variables: dict[str, str], field: str) -> None:
    with pytest.raises(DesktopError) as refused:
        read(variables, http=True)
    assert refused.value.field == field
    assert TOKEN[1:] not in str(refused.value)


@pytest.mark.parametrize(("mode", "content", "reason"), [(0o644, "x", "read by others"), (0o600, " \n", "empty")])
def test_a_secrets_file_is_its_owners_alone(tmp_path: Path, mode: int, content: str, reason: str) -> None:
    file = tmp_path / "link"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(DesktopError, match=reason):
        read({"DESKYARD_LINK_FILE": str(file)}, http=False)


@pytest.mark.parametrize(
    ("package", "known"),
    [("deskyard_sdk", {"httpx", "websockets", "agents", "anthropic", "PIL"}), ("deskyard_mcp", None)],
)
def test_a_package_for_programs_stands_on_nothing_of_ours_but_the_sdk(package: str, known: set[str] | None) -> None:
    modules = list((SDK / package).rglob("*.py"))
    roots = {name.split(".")[0] for path in modules for name in imported(parsed(path))}
    others = known or {"deskyard_sdk", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn"}
    assert modules
    assert roots <= {package, *others, *sys.stdlib_module_names}
