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
DRAWN = {"event": "screen.settled", "quiet_ms": 1500, "within_ms": 120_000}
SENT = {"event": "window.title", "match": {"title": "sent"}, "within_ms": 120_000}


def main() -> None:
    """Fill the form, say what the page made of it, and close the browser."""
    link = json.load(sys.stdin)["url"]
    with Desktop.connect(link, ca=sys.argv[1]) as desktop:
        desktop.files.write("form.html", PAGE.encode())
        before = desktop.act(actions.move(600, 400)).event
        # A profile of its own: where a browser was ended from outside, the next asks whether to restore its pages.
        profile = desktop.run("mktemp -d").stdout.strip()
        desktop.processes.start(f"chromium --no-first-run --user-data-dir={profile} ~/form.html")
        # Not yet `form.html`, which it is called while it loads.
        desktop.wait_for("window.title", window="form - Chromium", after=before, within=180)
        desktop.act(actions.move(600, 410), wait=DRAWN)
        typed = desktop.act(
            actions.type_text("Grüße"), actions.key("Return"), wait=SENT, picture={"format": "png"}, id="fill-1"
        )
        print(typed.waited)
        if typed.picture and typed.picture.data:
            Path("form.png").write_bytes(typed.picture.data)
        desktop.run(f"pkill -f {profile}; rm -r ~/form.html {profile}")
        desktop.wait_for("window.closed", after=typed.event)


if __name__ == "__main__":
    main()
