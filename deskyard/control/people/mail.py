"""The mail of a person, as a provider says that it verified it."""

import re
from collections.abc import Mapping
from typing import Any

MOST_LENGTH = 254
# It may become a name, which people copy into a shell: nothing that means something there.
MAIL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9.-]+\Z")


def verified_mail(claims: Mapping[str, Any]) -> str | None:
    """The mail that the provider says it verified, in lower case; None if it says anything else."""
    mail, verified = claims.get("email"), claims.get("email_verified")
    if verified is not True or not isinstance(mail, str) or not 3 <= len(mail) <= MOST_LENGTH:
        return None
    return mail.lower() if MAIL.match(mail) else None
