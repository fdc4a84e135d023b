"""The example of an agent on a real desktop: a form in the browser, a document in the office, and no sleep between."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from deskyard_sdk import Desktop

from deskyard.host.places import tree
from tests.e2e.conftest import door_of
from tests.e2e.full_desktop import CLOSE, as_agent
from tests.support import browser
from tests.support.form_model import FORM, LETTER, PAGE, SECONDS, SENT, STEPS, TEXT, Model
from tests.support.vendor_api import served
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.deep]
READ = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read('content.xml').decode())"


@pytest.fixture
def desk(full: Running) -> Iterator[Running]:
    """The desktop with the page of the form; what was opened is closed afterwards."""
    full.ssh("desk", f"sudo -u agent tee {FORM}", stdin=PAGE)
    yield full
    full.ssh("desk", CLOSE)


def test_an_agent_fills_a_form_in_the_browser_and_saves_a_document_in_the_office(desk: Running) -> None:
    authority = str(door_of(desk).authority)
    with served(Model) as url:
        variables = {
            "DESKYARD_LINK": str(desk.grant("desk", "--mode", "agent")["url"]),
            "DESKYARD_CA": authority,
            "MODEL_URL": url,
            "MODEL_KEY": Model.key,
            "PYTHONPATH": str(tree() / "sdk"),
        }
        command = [sys.executable, str(tree() / "examples/agent/loop.py"), "Fill the form, and write the letter."]
        ended = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=SECONDS * len(STEPS)
        )
    with Desktop.connect(str(desk.grant("desk", "--mode", "agent")["url"]), authority) as desktop:
        shown = desktop.screen(format="png").data
    assert shown is not None
    browser.keep(shown, "agent-loop")
    assert (ended.stdout.strip(), ended.returncode) == ("It is done.", 0), ended
    assert TEXT in as_agent(desk, f'python3 -c "{READ}" {LETTER}')
    assert SENT in as_agent(desk, "DISPLAY=:1 wmctrl -l")
