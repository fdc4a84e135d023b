"""What every manifest of an image says, whatever its packages are."""

from typing import Any

HEAD: dict[str, Any] = {
    "name": "desktop",
    "version": "0.1.0",
    "digest": "a" * 16,
    "sha256": "b" * 64,
    "built_at": "2026-11-20T10:00:00+00:00",
    "git_commit": "c" * 40,
    "artifacts": {"ttyd": "1.7.7"},
    "distribution": {"id": "debian", "version": "13"},
}
