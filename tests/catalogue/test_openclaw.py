"""OpenClaw on a host of its own: the owner's keys reach it and go again, it does a task, it drives the browser."""

import json
from collections.abc import Callable, Iterator

import pytest

from deskyard.lab.desk import ADDRESS
from tests.catalogue.agent import SERVICE, Agent
from tests.catalogue.workbench import Workbench

pytestmark = pytest.mark.deep
Eventually = Callable[[Callable[[], bool], str], None]
KEY, NEXT = "canary-71b2-first", "canary-e05d-rotated"


@pytest.fixture(scope="module")
def agent(bench: Workbench) -> Iterator[Agent]:
    """The agent without keys."""
    bench.apply(["node", "agent_openclaw"])
    agent = Agent(bench)
    agent.configure()
    yield agent
    agent.bring()


def heartbeats(agent: Agent) -> list[str]:
    """What it would ask its model by itself, by its own word."""
    output = agent.bench.do("openclaw cron list --all --json", user="agent", seconds=300).stdout
    return [job["name"] for job in json.loads(output)["jobs"] if job["enabled"] and "eartbeat" in job["name"]]


def test_it_asks_its_model_by_itself_only_when_its_owner_says_so(agent: Agent, eventually: Eventually) -> None:
    every = "openclaw config set agents.defaults.heartbeat.every"
    eventually(agent.ready, "the gateway")
    assert heartbeats(agent) == []
    try:
        agent.bench.do(f"{every} 30m", user="agent", seconds=300)
        eventually(lambda: heartbeats(agent) != [], "a heartbeat")
    finally:
        agent.bench.do(f"{every} 0m", user="agent", seconds=300)
    eventually(lambda: heartbeats(agent) == [], "no heartbeat")


def test_key_reaches_the_service_rotates_and_goes(agent: Agent, eventually: Eventually) -> None:
    agent.bring()
    eventually(agent.ready, "the gateway")
    assert "LOCAL_API_KEY" not in agent.environment()
    for key in (KEY, NEXT):
        before = agent.started()
        assert agent.bring(local=key) == "changed"
        eventually(agent.restarted_since(before), "a restart")
        eventually(agent.has(key), "the key")
    assert KEY not in agent.environment()
    before = agent.started()
    assert agent.bring(local=NEXT) == "unchanged"
    assert agent.bring() == "removed"
    eventually(agent.restarted_since(before), "a restart")
    eventually(lambda: "LOCAL_API_KEY" not in agent.environment(), "no key")


def test_task_is_done_by_the_agents_shell(agent: Agent, eventually: Eventually) -> None:
    agent.have_model(KEY)
    agent.bring(local=KEY)
    eventually(agent.has(KEY), "the key")
    answer = agent.do("Please run `echo made by $(id -un) > /home/agent/made.txt; cat /home/agent/made.txt` for me.")
    assert "The command said: made by agent" in answer
    assert (
        agent.bench.do("stat -c %U /home/agent/made.txt; cat /home/agent/made.txt").stdout == "agent\nmade by agent\n"
    )
    assert set(agent.asked()) == {"/v1/chat/completions known"}


def test_task_without_the_right_key_fails_and_says_so(agent: Agent, eventually: Eventually) -> None:
    agent.have_model(KEY)
    agent.bring(local=NEXT)
    eventually(agent.has(NEXT), "the key")
    answer = agent.do("Please run `touch /home/agent/never.txt`.")
    assert "The command said" not in answer
    assert set(agent.asked()) == {"/v1/chat/completions unknown"}
    assert agent.bench.do("ls /home/agent/never.txt", check=False).code != 0


def test_what_the_agent_starts_is_within_its_limits(agent: Agent, eventually: Eventually) -> None:
    agent.have_model(KEY)
    agent.bring(local=KEY)
    eventually(agent.has(KEY), "the key")
    # After a wrong key OpenClaw asks the provider nothing for a minute, with the right one neither.
    limited = "what it starts is of its service"
    eventually(lambda: f"/{SERVICE}" in agent.do("Please run `cat /proc/self/cgroup`."), limited)


def test_browser_that_it_drives_is_chromium(agent: Agent, eventually: Eventually) -> None:
    eventually(agent.ready, "the gateway")
    # No screen here: that it shows up on one is a matter of DISPLAY.
    started = agent.bench.do("openclaw browser --json start --headless", user="agent", check=False, seconds=600)
    assert started.code == 0, started.stdout + started.stderr
    running = agent.bench.do("ps -u agent -o args= | grep -- --remote-debugging", check=False).stdout
    assert "/chromium" in running and "--no-sandbox" not in running
    output = json.loads(agent.bench.do("openclaw browser --json status", user="agent", seconds=300).stdout)
    assert output["running"] is True


def test_browser_opens_the_loopback_address_and_no_other_private_one(agent: Agent, eventually: Eventually) -> None:
    eventually(agent.ready, "the gateway")
    agent.bench.do("openclaw browser --json start --headless", user="agent", seconds=600)
    # The gateway's own page, and a neighbour's.
    for host in ("127.0.0.1", "localhost"):
        output = agent.bench.do(f"openclaw browser open http://{host}:18789/", user="agent", seconds=300)
        assert "opened:" in output.stdout, output.stdout + output.stderr
    refused = agent.bench.do(f"openclaw browser open http://{ADDRESS}/", user="agent", check=False, seconds=300)
    assert refused.code != 0
    assert "blocked by policy" in refused.stderr


def test_two_desktops_have_two_secrets(bench: Workbench) -> None:
    read = "cat /etc/deskyard/agent-openclaw.env"
    first = bench.do(read).stdout
    # A second desktop: the same image, at its first boot.
    bench.do("mv /etc/deskyard/agent-openclaw.env /root/; systemctl restart agent-openclaw-secret.service")
    second = bench.do(read).stdout
    bench.do("systemctl restart agent-openclaw-secret.service")
    assert bench.do(read).stdout == second != first
    assert bench.do("stat -c '%U %G %a' /etc/deskyard/agent-openclaw.env").stdout == "root agent 640\n"
    bench.do(f"systemctl restart {SERVICE}")
