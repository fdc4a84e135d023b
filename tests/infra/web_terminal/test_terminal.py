"""The terminal: ttyd speaks its protocol, and what is typed runs as the agent."""

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

Eventually = Callable[[Callable[[], bool], str], None]

# ttyd's protocol: subprotocol `tty`, first a JSON message with the size, then `0` + input; output comes as `0` + bytes.
CLIENT = r"""
import base64, json, os, socket, struct, sys, time
port = int(sys.argv[1])
s = socket.create_connection(("127.0.0.1", port), timeout=60)
key = base64.b64encode(os.urandom(16)).decode()
s.sendall(("GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: tty\r\n\r\n" % key).encode())

def send(payload):
    mask = os.urandom(4)
    body = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    s.sendall(bytes([0x82, 0x80 | len(payload)]) + mask + body)

data = s.recv(4096)
print(data.split(b"\r\n")[0].decode())
send(json.dumps({"AuthToken": "", "columns": 100, "rows": 30}).encode())
time.sleep(3)
send(b"0echo I-am-$(id -un)-$((6*7))\r")
until = time.time() + 60
while b"I-am-" + sys.argv[2].encode() + b"-42" not in data and time.time() < until:
    data += s.recv(4096)
print("echoed" if time.time() < until else "silent")
"""


def test_terminal_runs_what_is_typed(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    port, user = defaults["web_terminal_port"], defaults["web_terminal_user"]
    wanted = "HTTP/1.1 101 Switching Protocols\nechoed"
    eventually(lambda: host.run(f"python3 -c %s {port} {user}", CLIENT).stdout.strip() == wanted, wanted)


def test_terminal_is_a_tmux_session_that_stays(host: Host, defaults: dict[str, Any]) -> None:
    user = defaults["web_terminal_user"]
    names = host.check_output(f"sudo -u {user} tmux list-sessions -F '#{{session_name}}'").split()
    assert defaults["web_terminal_session"] in names


def test_ttyd_is_the_pinned_version(host: Host) -> None:
    assert host.check_output("/usr/local/bin/ttyd --version").startswith("ttyd version 1.7.7")
