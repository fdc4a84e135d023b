"""The screen: VNC on the loopback address only, WebSocket for the gateway."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

from deskyard.image.check.first_frame import VIEWER

PROGRAMS = {"tigervnc": "Xtigervnc", "kasmvnc": "Xkasmvnc"}
Eventually = Callable[[Callable[[], bool], str], None]

BANNER = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as s:
    print(s.recv(12).decode().strip())
"""

BREAK_OFF = """
import socket, sys
address = (sys.argv[1], int(sys.argv[2]))
for _ in range(12):
    with socket.create_connection(address, timeout=20) as s:
        s.recv(12)
with socket.create_connection(address, timeout=20) as s:
    s.sendall(s.recv(12))
    offered = s.recv(1)
    print("welcome" if offered and offered[0] > 0 else "shut out")
"""

SIZE = (
    VIEWER
    + r"""
with viewer(int(sys.argv[1])) as (_, _, size):
    print("%dx%d" % size)
"""
)

# A WebSocket client in few lines, because the guest has no library for it.
WEBSOCKET = """
import base64, hashlib, os, socket, sys
host, port = sys.argv[1], int(sys.argv[2])
key = base64.b64encode(os.urandom(16)).decode()
with socket.create_connection((host, port), timeout=30) as s:
    lines = ["GET /websockify HTTP/1.1", "Host: " + host, "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: " + key, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: binary", "", ""]
    s.sendall("\\r\\n".join(lines).encode())
    data = b""
    while b"RFB" not in data:
        more = s.recv(4096)
        if not more:
            break
        data += more
accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
status = data.split(b"\\r\\n")[0].decode()
print(status, "accepted" if accept in data else "refused", "RFB" if b"RFB 003" in data else "")
"""


def _python(host: Host, script: str, *arguments: object) -> Any:
    return host.run("python3 -c %s " + " ".join(str(a) for a in arguments), script)


@pytest.fixture(scope="module")
def lan_address(host: Host) -> str:
    addresses = json.loads(host.check_output("ip -json -4 address show scope global"))
    return str(addresses[0]["addr_info"][0]["local"])


def test_screen_is_that_of_the_chosen_server(host: Host, defaults: dict[str, Any]) -> None:
    process = host.check_output("systemctl show --property=MainPID --value vnc-server.service")
    program = host.check_output(f"readlink /proc/{process}/exe").rpartition("/")[2]
    assert program == PROGRAMS[defaults["vnc_server_kind"]]


def test_vnc_answers_on_loopback(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    port = defaults["vnc_server_port"]
    eventually(lambda: _python(host, BANNER, "127.0.0.1", port).stdout.startswith("RFB 003."), "VNC answers")


def test_viewers_that_break_off_do_not_shut_out_the_next(host: Host, defaults: dict[str, Any]) -> None:
    # What a refused viewer gets begins like any banner: only the handshake's second message tells.
    assert _python(host, BREAK_OFF, "127.0.0.1", defaults["vnc_server_port"]).stdout.strip() == "welcome"


def test_vnc_is_closed_on_the_lan_address(host: Host, defaults: dict[str, Any], lan_address: str) -> None:
    answer = _python(host, BANNER, lan_address, defaults["vnc_server_port"])
    assert answer.rc != 0
    assert "Connection refused" in answer.stderr


def test_websocket_carries_vnc_on_the_lan_address(
    host: Host, defaults: dict[str, Any], lan_address: str, eventually: Eventually
) -> None:
    port = defaults["vnc_server_websocket_port"]
    wanted = "HTTP/1.1 101 Switching Protocols accepted RFB"
    eventually(lambda: _python(host, WEBSOCKET, lan_address, port).stdout.strip() == wanted, wanted)


def test_screen_has_the_declared_size(host: Host, defaults: dict[str, Any]) -> None:
    output = _python(host, SIZE, defaults["vnc_server_port"])
    assert output.stdout.strip() == f"{defaults['vnc_server_width']}x{defaults['vnc_server_height']}", output.stderr


def test_x_has_no_tcp_port(host: Host, defaults: dict[str, Any]) -> None:
    listening = host.check_output("ss --no-header --listening --tcp --numeric")
    assert f":{6000 + defaults['vnc_server_display']} " not in listening
