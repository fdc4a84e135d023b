"""The JavaScript client on a real desktop."""

import json
import subprocess
from pathlib import Path

from tests.computer.desktop import HEIGHT, WIDTH, Recorder, Service
from tests.support.requirements import need_programs

CLIENT = Path(__file__).resolve().parents[2] / "sdk/js/desktop.js"
PROGRAM = """
import { Desktop } from %(client)s;
const desktop = await Desktop.connect(%(url)s);
const [before] = (await desktop.listWindows()).windows.filter(({ id }) => id === %(window)d);
const space = "window:%(window)d";
const acted = await desktop.act({
  actions: [{ type: "click", x: 10, y: 10, space }, { type: "type", text: "ja" }],
  return: { format: "png" },
});
const { event } = await desktop.wait({ event: "screen.settled" });
const stream = await desktop.createStream({ window: before.id });
const { streams } = await desktop.listStreams();
await desktop.deleteStream({ id: stream.id });
const over = await desktop.getStream({ id: stream.id }).catch(({ status, reason }) => [status, reason]);
const result = await desktop.run({ command: ["echo", "hello"] });
for await (const first of desktop.events({ after: 0 })) {
  console.log(JSON.stringify({
    size: acted.picture.size, event, streams: streams.length, over, said: result.stdout, first: first.seq,
  }));
  break;
}
"""


def test_javascript_client_sees_acts_waits_and_runs(service: Service, recorder: Recorder) -> None:
    need_programs("node")
    text = PROGRAM % {"client": json.dumps(str(CLIENT)), "url": json.dumps(service.url), "window": recorder.id}
    done = subprocess.run(
        ["node", "--input-type=module", "-"], input=text, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    recorder.until(lambda: recorder.text == "ja", "what was typed")
    assert recorder.buttons()[0] == (1, 10, 10)
    answer = json.loads(done.stdout)
    # Numbers go on from the clock, and bear being read as JavaScript reads them.
    assert 0 < answer.pop("first") < 2**53
    assert answer == {
        "size": [WIDTH, HEIGHT], "event": "screen.settled", "streams": 1,
        "over": [410, "the stream was deleted"], "said": "hello\n",
    }  # fmt: skip
