"""The editor: `code` starts it, and it lets in who has the password of its window."""

import json
from typing import Any

import pytest
from testinfra.host import Host

# What the window does: it opens the page that `code` made, which sends its form.
OPEN = r"""
import http.cookiejar, pathlib, re, sys, urllib.error, urllib.parse, urllib.request
page = pathlib.Path(sys.argv[1]).read_text()
action = re.search(r'action="([^"]+)"', page)[1]
password = re.search(r'value="([^"]+)"', page)[1] if sys.argv[2] == "mine" else "0" * 48
cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
window = urllib.request.build_opener(cookies)
asked = urllib.request.Request(action, urllib.parse.urlencode({"password": password}).encode(), {"Origin": "null"})
with window.open(asked, timeout=120) as answer:
    text = answer.read().decode()
print(urllib.parse.urlsplit(answer.url).path, "workbench" if "vscode-workbench" in text else "login")
"""


@pytest.fixture(scope="module")
def page(host: Host) -> str:
    """The first page of a window, once the editor runs."""
    return str(host.check_output("sudo -u agent -i code --no-window /home/agent"))


def test_code_opens_a_folder(host: Host, page: str) -> None:
    assert host.check_output("sudo -u agent python3 -c %s %s mine", OPEN, page) == "/ workbench"


def test_who_has_no_password_is_not_let_in(host: Host, page: str) -> None:
    assert host.check_output("sudo -u agent python3 -c %s %s other", OPEN, page) == "/login login"


def test_nobody_else_reads_the_password(host: Host, page: str) -> None:
    assert "Permission denied" in host.run("sudo -u nobody cat %s", page).stderr
    password = host.file(page.replace("window-0.html", "password"))
    assert (password.user, f"{password.mode:o}") == ("agent", "600")


def test_password_is_on_no_command_line(host: Host, page: str) -> None:
    password = page.replace("window-0.html", "password")
    output = host.run("grep --files-with-matches --fixed-strings --file=%s /proc/[0-9]*/cmdline 2>/dev/null", password)
    assert output.stdout == ""


def test_editor_is_on_the_loopback_address_alone(host: Host, page: str, defaults: dict[str, Any]) -> None:
    listening = host.check_output("ss --no-header --listening --tcp --numeric").splitlines()
    port = f":{defaults['editor_port']}"
    assert [line.split()[3] for line in listening if line.split()[3].endswith(port)] == [f"127.0.0.1{port}"]


def test_second_call_finds_it_running(host: Host, page: str) -> None:
    before = host.check_output("pgrep --oldest --full %s", "[c]ode-server")
    host.check_output("sudo -u agent -i code --no-window /tmp")
    assert host.check_output("pgrep --oldest --full %s", "[c]ode-server") == before


def test_user_begins_with_the_settings_of_the_role(host: Host, page: str, defaults: dict[str, Any]) -> None:
    settings = host.file(f"{host.user('agent').home}/.local/share/code-server/User/settings.json")
    assert json.loads(settings.content_string) == defaults["editor_settings"]


def test_assistant_that_needs_an_account_is_not_there(host: Host, defaults: dict[str, Any]) -> None:
    looked_for = "-path '*/extensions/copilot' -o -name 'copilot-sdk*'"
    assert host.check_output(f"find %s {looked_for}", f"{defaults['editor_folder']}/node_modules") == ""


def test_editor_is_in_the_menu(host: Host) -> None:
    assert "Exec=/usr/local/bin/code %F" in host.file("/usr/share/applications/code.desktop").content_string


def test_nothing_of_the_compiler_stayed_for_it(host: Host, defaults: dict[str, Any]) -> None:
    installed = host.check_output("dpkg-query -W -f '${db:Status-Status} ${Package}\\n'").splitlines()
    left = {line.split()[1] for line in installed if line.startswith("installed ")}
    assert not left & {name for name in defaults["editor_build_packages"] if name.endswith("-dev")}


def test_compiling_left_nothing_of_npms_settings(host: Host, defaults: dict[str, Any]) -> None:
    assert host.check_output("find %s -path '*/build/config.gypi'", defaults["editor_folder"]) == ""
