"""Signing in by an OpenID provider that the site's owner declared: a process of its own, since web has no way out."""
