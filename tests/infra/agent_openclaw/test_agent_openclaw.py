"""OpenClaw: runs as the agent, answers on the loopback address, and nobody who does not know its secret."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

Eventually = Callable[..., None]
# An emulated processor takes ten minutes for what others do in seconds.
START_SECONDS = 1200.0
SECRET = "/etc/deskyard/agent-openclaw.env"

# Asks the gateway for the sessions of its agent: without the secret, with a wrong one, and with its own.
ASK = """
import json, pathlib, sys, urllib.error, urllib.request
port = sys.argv[1]
token = dict(line.split("=", 1) for line in pathlib.Path(sys.argv[2]).read_text().split())["OPENCLAW_GATEWAY_TOKEN"]
found = {}
for who, given in {"nobody": None, "stranger": "0" * 64, "owner": token}.items():
    headers = {"Content-Type": "application/json"}
    if given:
        headers["Authorization"] = "Bearer " + given
    body = json.dumps({"tool": "sessions_list", "args": {}}).encode()
    asked = urllib.request.Request("http://127.0.0.1:%s/tools/invoke" % port, body, headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            found[who] = answer.status
    except urllib.error.HTTPError as error:
        found[who] = error.code
    except OSError:
        found[who] = 0
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def configuration(host: Host, defaults: dict[str, Any]) -> dict[str, Any]:
    """OpenClaw's own file."""
    path = f"/home/{defaults['agent_openclaw_user']}/.openclaw/openclaw.json"
    found: dict[str, Any] = json.loads(host.file(path).content_string)
    return found


def asked(host: Host, defaults: dict[str, Any]) -> dict[str, int]:
    """What the gateway answers to whom; nothing while it does not answer at all."""
    done = host.run("python3 -c %s %s %s", ASK, str(defaults["agent_openclaw_port"]), SECRET)
    return json.loads(done.stdout) if done.rc == 0 else {}


def test_gateway_answers_who_knows_its_secret_and_nobody_else(
    host: Host, defaults: dict[str, Any], eventually: Eventually
) -> None:
    wanted = {"nobody": 401, "stranger": 401, "owner": 200}
    eventually(lambda: asked(host, defaults) == wanted, f"answers {wanted}", START_SECONDS)


def test_gateway_is_on_the_loopback_address_alone(host: Host, defaults: dict[str, Any]) -> None:
    listening = host.check_output("ss --no-header --listening --tcp --numeric").splitlines()
    port = f":{defaults['agent_openclaw_port']}"
    found = {address for line in listening if (address := line.split()[3]).endswith(port)}
    assert found and found <= {f"127.0.0.1{port}", f"[::1]{port}"}


def test_openclaw_is_new_enough(host: Host, defaults: dict[str, Any]) -> None:
    output = host.check_output("sudo -u %s -i openclaw --version", defaults["agent_openclaw_user"])
    found, least = (
        [int(part) for part in re.findall(r"\d+", version)[:3]]
        for version in (output, defaults["agent_openclaw_least_version"])
    )
    assert found >= least


def test_secret_is_long_and_read_by_the_agent_alone(host: Host, defaults: dict[str, Any]) -> None:
    file, user = host.file(SECRET), defaults["agent_openclaw_user"]
    assert (file.user, file.group, f"{file.mode:o}") == ("root", user, "640")
    assert re.fullmatch(r"OPENCLAW_GATEWAY_TOKEN=[0-9a-f]{64}\n", file.content_string)
    assert host.run("sudo -u %s cat %s", user, SECRET).rc == 0
    assert "Permission denied" in host.run("sudo -u nobody cat %s", SECRET).stderr


def test_secret_is_in_no_other_file_of_ours(host: Host, configuration: dict[str, Any]) -> None:
    secret = host.file(SECRET).content_string.strip().split("=")[1]
    assert configuration["gateway"]["auth"]["token"] == "${OPENCLAW_GATEWAY_TOKEN}"
    # On standard input: a command line is no place for it.
    places = "/etc /usr/local /opt/openclaw/package.json /proc/[0-9]*/cmdline"
    search = f"grep --recursive --files-with-matches --fixed-strings --file=- {places} 2>/dev/null"
    found = host.run(f"sed 's/.*=//' {SECRET} | {search}")
    assert found.stdout.split() == [SECRET]
    assert secret not in host.check_output("systemctl show agent-openclaw.service")


def test_service_runs_as_the_agent_within_limits(host: Host, defaults: dict[str, Any]) -> None:
    names = ("User", "MemoryMax", "TasksMax", "CPUWeight", "ActiveState", "UnitFileState")
    argv = " ".join(f"--property={name}" for name in names)
    shown = host.check_output(f"systemctl show agent-openclaw.service {argv}").splitlines()
    found = dict(line.split("=", 1) for line in shown)
    assert found.pop("MemoryMax") not in ("infinity", "")
    assert found == {
        "User": defaults["agent_openclaw_user"],
        "TasksMax": str(defaults["agent_openclaw_tasks_max"]),
        "CPUWeight": str(defaults["agent_openclaw_cpu_weight"]),
        "ActiveState": "active",
        "UnitFileState": "enabled",
    }


def test_browser_is_the_desktops(configuration: dict[str, Any], defaults: dict[str, Any]) -> None:
    browser = configuration["browser"]
    assert (browser["executablePath"], browser["headless"], browser["noSandbox"]) == (
        defaults["agent_openclaw_browser"],
        False,
        False,
    )


def test_it_asks_its_model_by_itself_as_often_as_the_role_says(
    configuration: dict[str, Any], defaults: dict[str, Any]
) -> None:
    # Whoever has the key pays for each time; what OpenClaw makes of it is in tests/catalogue.
    assert configuration["agents"]["defaults"]["heartbeat"] == {"every": defaults["agent_openclaw_heartbeat"]}


def test_what_it_is_told_of_its_machine_makes_room_for_its_owners(
    host: Host, configuration: dict[str, Any], defaults: dict[str, Any]
) -> None:
    user, path = defaults["agent_openclaw_user"], ".openclaw/workspace/AGENTS.md"
    assert f"`{defaults['agent_openclaw_display']}`" in host.file(f"/etc/skel/{path}").content_string
    own = host.file(f"/home/{user}/{path}")
    assert (own.user, own.is_file) == (user, True)
    assert configuration["agents"]["defaults"]["skipBootstrap"] is True


def test_owners_keys_reach_the_service_and_are_watched(host: Host) -> None:
    files = host.check_output("systemctl show --property=EnvironmentFiles agent-openclaw.service")
    assert "/etc/deskyard/keys.env (ignore_errors=yes)" in files
    assert host.check_output("systemctl is-active agent-openclaw-keys.path") == "active"


def test_its_tools_for_the_screen_are_roots_and_loaded(host: Host, configuration: dict[str, Any]) -> None:
    [folder] = configuration["plugins"]["load"]["paths"]
    for name in ("index.js", "openclaw.plugin.json", "package.json"):
        file = host.file(f"{folder}/{name}")
        assert (file.user, file.mode) == ("root", 0o644), name
    manifest = json.loads(host.file(f"{folder}/openclaw.plugin.json").content_string)
    assert configuration["plugins"]["entries"][manifest["id"]] == {"enabled": True}
