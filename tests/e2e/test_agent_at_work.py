"""The agent of the full image does a task that came through the gateway, with its owner's key, on its screen."""

import pytest
from selenium.webdriver import Chrome

from tests.catalogue.agent import SERVICE
from tests.e2e.full_desktop import PAGE, PAGE_COLOUR, PAUSE_SECONDS, await_window, set_up_agent
from tests.gateway.support import wait_for
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.deep]
TASK_SECONDS = 1500
PROMPT = "Mind the harbour."
PAGES_PORT = 18080


@pytest.fixture(scope="module")
def agent(full: Running) -> Running:
    """The full image's desktop, whose agent is set up."""
    set_up_agent(full, PROMPT)
    return full


def reply(agent: Running, task: str) -> str:
    """What the agent answers to a task of its owner."""
    arguments = ("agent.task", f"{agent.name}/desk", task, "--timeout", f"{TASK_SECONDS}s")
    return agent.inv(*arguments, timeout=TASK_SECONDS + 300).stdout


def test_agent_makes_a_file_by_its_shell_and_says_so(agent: Running) -> None:
    command = "echo made by $(id -un) > /home/agent/task.txt; cat /home/agent/task.txt"
    assert "The command said: made by agent" in reply(agent, f"Please run `{command}` for me.")
    assert agent.ssh("desk", "sudo cat /home/agent/task.txt").stdout == "made by agent\n"


def test_agent_opens_a_page_on_its_screen(agent: Running, full_viewer: Chrome) -> None:
    agent.ssh("desk", "sudo tee /srv/page.html >/dev/null", stdin=PAGE)
    serve = f"python3 -m http.server --directory /srv --bind 127.0.0.1 {PAGES_PORT}"
    agent.ssh("desk", f"sudo systemd-run --quiet --unit=pages.service {serve}")
    # A command that takes long goes on while the agent answers.
    reply(agent, f"Please run `chromium http://127.0.0.1:{PAGES_PORT}/page.html` for me.")
    await_window(agent, full_viewer, "local page", PAGE_COLOUR, "agent-at-work")


def test_what_the_owner_wrote_down_for_it_reaches_its_model(agent: Running) -> None:
    assert f"It is noted: {PROMPT}" in reply(agent, "What is noted of `the harbour`?")


def test_command_that_takes_too_much_memory_ends_and_the_agent_goes_on(agent: Running) -> None:
    shown = f"systemctl show --value --property=MainPID {SERVICE}"
    before = agent.ssh("desk", shown).stdout
    limit = int(agent.ssh("desk", f"systemctl show --value --property=MemoryMax {SERVICE}").stdout)
    greedy = f"python3 -c \"print(len(bytearray(b'x') * {limit}))\""
    # It may take longer than OpenClaw waits for a command.
    reply(agent, f"Please run `{greedy}; echo ended with $? >/home/agent/ended` for me.")
    read = "sudo cat /home/agent/ended"

    def has_ended() -> bool:
        return agent.ssh("desk", read, check=False).returncode == 0

    wait_for("the command's end", has_ended, TASK_SECONDS, PAUSE_SECONDS)
    assert agent.ssh("desk", read).stdout == "ended with 137\n"
    assert agent.ssh("desk", shown).stdout == before
