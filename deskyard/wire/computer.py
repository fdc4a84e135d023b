"""The agreement of a gateway and a desktop's computer-use service: what a caller may do, and how the gateway tells."""

SEE = "see"
ACT = "act"
FILES = "files"
SHELL = "shell"
SCOPES = (SEE, ACT, FILES, SHELL)

# Set by the gateway's door on each request, which drops what a client sends under these names.
SESSION_HEADER = "x-deskyard-session"
SCOPES_HEADER = "x-deskyard-scopes"
