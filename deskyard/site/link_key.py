"""The site's second SSH key pair: who has it may ask gateways a few questions of Mission Control's, and no more.

Gateways get the key, the account that it opens and the program that answers as they get their settings; their image
knows nothing of it. What may be asked stands in deskyard/guest/link_questions.py.
"""

import hashlib
import json
from pathlib import Path

from deskyard.errors import SiteError
from deskyard.guest import link_account, link_questions
from deskyard.site import guest_program, key_pair
from deskyard.site.ssh_link import GATEWAY, SshLink

NAME = "link_ed25519"
DELIVER_SECONDS = 300.0


def private_key_file(site: str) -> Path:
    """The private key, made at first use, readable by its owner only."""
    return key_pair.private_key_file(site, NAME)


def digest(site: str) -> str:
    """The digest of the key that a gateway of the site has to have, and of the programs that bind it."""
    command, text = _sent(site)
    return hashlib.sha256("\0".join([*command, text]).encode()).hexdigest()


def deliver(ssh: SshLink) -> str:
    """Bring a gateway to that, which changes only what differs; its digest."""
    command, text = _sent(ssh.site)
    said = ssh.run(GATEWAY, command, stdin=text, timeout=DELIVER_SECONDS).stdout
    try:
        answer = json.loads(said)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "changed" not in answer:
        reason = f"did not take the key of Mission Control's link: {said.strip()[-300:]}"
        raise SiteError("gateway", ssh.workspace, reason, "see its console, then run the same command again")
    return digest(ssh.site)


def _sent(site: str) -> tuple[list[str], str]:
    public = key_pair.public_key(site, NAME, f"deskyard-link-{site}")
    program = Path(link_questions.__file__).read_text()
    return guest_program.sent(link_account, {"key": public, "program": program})
