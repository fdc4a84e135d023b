"""Certificates that are trusted in place of this machine's own, as somebody declared them at the host."""

import ssl

from deskyard.errors import ConfigError


def require_certificates(pem: str) -> None:
    """Raise `ConfigError` if a text holds no certificates; an empty one stands for those of the machine."""
    if not pem.isascii():
        # Python's TLS refuses the whole text for it.
        raise ConfigError("--authority", None, "has letters that no PEM has", "take comments out of the file")
    try:
        ssl.create_default_context(cadata=pem or None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError("--authority", None, "holds no certificate", "name a PEM file") from error
