"""The pipelines that users copy are well-formed, pin what they use, and call tasks that exist."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tasks import ns
from tests.support.linters import passes, verdict

FOLDER = Path(__file__).parents[2] / "examples/ci"
SCHEMAS = {
    "github.yml": ("--builtin-schema", "vendor.github-workflows"),
    "github-task.yml": ("--builtin-schema", "vendor.github-workflows"),
    # Both forges took GitHub's form.
    "forgejo.yml": ("--builtin-schema", "vendor.github-workflows"),
    "gitlab-ci.yml": ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"),
}
# The pipeline that gives a task builds nothing.
BUILDING = tuple(name for name in SCHEMAS if name != "github-task.yml")
ZIZMOR = ("zizmor", "--offline", "--no-progress", "--no-config", "--strict-collection")
PINNED = re.compile(r"uses: (?:https://code\.forgejo\.org/)?[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
CALL = re.compile(r"\./inv (?:--yes )?(?P<task>[a-z]+\.[a-z]+)(?P<rest>.*)")


def checked(name: str, path: Path) -> tuple[int, str]:
    """Exit code and words of check-jsonschema, in this process: its start takes longer than its work."""
    from check_jsonschema import main

    done = CliRunner().invoke(main, [*SCHEMAS[name], str(path)])
    return done.exit_code, done.output


def test_each_pipeline_is_checked() -> None:
    assert {path.name for path in FOLDER.glob("*.yml")} == SCHEMAS.keys()


@pytest.mark.parametrize("name", SCHEMAS)
def test_pipeline_satisfies_the_schema_of_its_forge(name: str) -> None:
    code, said = checked(name, FOLDER / name)
    assert code == 0, said


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_refuses_a_pipeline_that_is_none(name: str, tmp_path: Path) -> None:
    key = "script" if name == "gitlab-ci.yml" else "runs-on"
    broken = re.sub(rf"^( +){key}:", r"\1no-such-key:", (FOLDER / name).read_text(), flags=re.MULTILINE)
    (tmp_path / name).write_text(broken)
    code, said = checked(name, tmp_path / name)
    assert code == 1, said


@pytest.mark.parametrize("name", ["github.yml", "github-task.yml"])
def test_github_pipeline_has_no_known_weakness(name: str) -> None:
    passes(*ZIZMOR, str(FOLDER / name))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (r"@[0-9a-f]{40} #.*", "@v5"),
        (r"\n +with:\n +persist-credentials: false", ""),
        (r'image\.build "\$IMAGE"', "image.build ${{ github.head_ref }}"),
    ],
    ids=["unpinned", "credentials", "injection"],
)
def test_linter_sees_a_weakness(good: str, bad: str, tmp_path: Path) -> None:
    text = (FOLDER / "github.yml").read_text()
    weak = re.sub(good, bad, text)
    assert weak != text
    (tmp_path / "github.yml").write_text(weak)
    code, said = verdict(*ZIZMOR, str(tmp_path / "github.yml"))
    assert code != 0, said


@pytest.mark.parametrize("name", ["github.yml", "github-task.yml", "forgejo.yml"])
def test_actions_are_pinned_by_commit_and_say_their_version(name: str) -> None:
    used = [line.strip() for line in (FOLDER / name).read_text().splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not PINNED.search(line)] == []


@pytest.mark.parametrize("name", BUILDING)
def test_pipeline_calls_tasks_and_options_that_exist(name: str) -> None:
    calls = [match for line in (FOLDER / name).read_text().splitlines() for match in CALL.finditer(line)]
    assert {call["task"] for call in calls} >= {"image.build", "image.verify", "image.scan", "image.publish"}
    for call in calls:
        options = {word for argument in ns[call["task"]].get_arguments() for word in argument.names}
        given = {word.removeprefix("--") for word in shlex.split(call["rest"]) if word.startswith("--")}
        assert given <= {option.replace("_", "-") for option in options}, call[0]


@pytest.mark.parametrize("name", SCHEMAS)
def test_secrets_reach_programs_by_the_environment_alone(name: str) -> None:
    """What stands in a command line is seen by every process of the runner."""
    secret = re.compile(r"\$\{?\{? ?(?:secrets\.)?(?:IMAGE_KEY|PROXMOX_TOKEN|MISSION_KEY)")
    lines = [line.strip() for line in (FOLDER / name).read_text().splitlines() if secret.search(line)]
    harmless = re.compile(r"^(?:IMAGE_KEY|DESKYARD_PROXMOX_TOKEN|MISSION_KEY): |printf '%s\\n'|^- export |^if \[ -n ")
    assert lines
    assert [line for line in lines if not harmless.search(line)] == []
