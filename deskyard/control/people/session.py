"""How long a session of a person lasts, and which of them count."""

SECONDS = 12 * 3600
# What a provider began counts as long as the provider was asked.
OPEN = "ended_at is null and expires_at > now() and coalesce(confirmed_until > now(), true)"
