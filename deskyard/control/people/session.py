"""How long a session of a person lasts, and which of them count."""

SECONDS = 12 * 3600
# What a provider began counts as long as the provider was asked; what a passkey began, as long as that is there: a
# sign-in that was under way as it was removed may have begun one afterwards.
OPEN = """ended_at is null and expires_at > now() and coalesce(confirmed_until > now(), true)
    and (passkey_id is null or exists (select from passkey where passkey.id = passkey_id))"""
