"""Opens a page in a desktop's browser, fills its form, and keeps a picture of it: every step waits for an event.

Takes the answer of access.grant on its input, and the file of the site's authority:

    ./inv access.grant research/reader --mode agent --json | python fill_a_form.py ca.pem
"""

import json
import sys
from pathlib import Path

from deskyard_sdk import Desktop, actions

PAGE = """<title>form</title>
<form onsubmit="document.title = 'sent: ' + who.value; return false">
<input id=who autofocus><button>Send</button></form>
"""
SENT = {"event": "window.title", "match": {"title": "sent"}, "within_ms": 120_000}


def main() -> None:
    """Fill the form, say what the page made of it, and close the browser."""
    link = json.load(sys.stdin)["url"]
    with Desktop.connect(link, ca=sys.argv[1]) as desktop:
        desktop.files.write("form.html", PAGE.encode())
        before = desktop.act(actions.move(600, 400)).event
        desktop.processes.start("chromium --no-first-run --no-default-browser-check ~/form.html")
        desktop.wait_for("window.title", window="form", after=before, within=180)
        desktop.wait_for("screen.settled", within=120)
        typed = desktop.act(
            actions.type_text("Grüße"), actions.key("Return"), wait=SENT, picture={"format": "png"}, id="fill-1"
        )
        print(typed.waited)
        if typed.picture and typed.picture.data:
            Path("form.png").write_bytes(typed.picture.data)
        desktop.run("pkill chromium; rm ~/form.html")
        desktop.wait_for("window.closed", after=typed.event)


if __name__ == "__main__":
    main()
