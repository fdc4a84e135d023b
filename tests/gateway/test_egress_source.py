"""Whose address is seen: outside that of the gateway alone, inside a workspace the gateway's own."""

import json
import subprocess
import sys
from pathlib import Path

from deskyard.gateway.config import render
from tests.gateway.nets import Nets
from tests.gateway.test_firewall import D1, GATEWAY, PUBLIC, UPLINK, run_nets
from tests.unit.gateway.support import parsed

# Tells everybody who connects with which address they came.
TELL = """
import socket, sys
listener = socket.create_server(("", 6081))
print("ready", flush=True)
while True:
    line, (address, _) = listener.accept()
    line.sendall(address.encode()); line.close()
"""
ASK = """
import json, socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as line:
    print(json.dumps(line.makefile().read()))
"""


def seen_by(nets: Nets, there: str, address: str, here: str) -> str:
    """The address with which `there` sees `here`."""
    command = ["ip", "netns", "exec", nets.name(there), sys.executable, "-c", TELL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            return str(json.loads(nets.run(here, sys.executable, "-c", ASK, address, "6081")))
        finally:
            server.kill()


def test_addresses_of_a_workspace_stay_in_it(tmp_path: Path) -> None:
    settings = parsed("open")
    with run_nets(settings) as nets:
        assert seen_by(nets, "host", PUBLIC, "d1") == D1
        # The desktop's own ports are taken by the lab.
        nets.load(render.firewall(settings).replace("@routes ", f"{{ {D1} . 6081 }} "), tmp_path)
        assert seen_by(nets, "host", PUBLIC, "d1") == UPLINK
        assert seen_by(nets, "d1", D1, "gw") == GATEWAY
