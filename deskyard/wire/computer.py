"""The agreement of a gateway and a desktop's computer-use service: what a caller may do, and how the gateway tells."""

SEE = "see"
ACT = "act"
FILES = "files"
SHELL = "shell"
SCOPES = (SEE, ACT, FILES, SHELL)

# What a person who drives wants: the gateway tells the service, which tells programs by these events.
PRIVACY_ON, PRIVACY_OFF = "privacy.on", "privacy.off"
# What a desktop's events tell of its work, to who may use processes and files.
PROCESS_ENDED, PROCESS_OUTPUT, FILE_CHANGED = "process.ended", "process.output", "file.changed"
PRIVACY_PATH, WAIT_PATH = "/v1/privacy", "/v1/wait"
# The gateway tells the service there which sessions are over: what they hold down is let go. So many at once.
SESSIONS_PATH = "/v1/sessions"
MOST_ENDED = 500

# Who listens there as root halts all that the agent runs, or lets it go on: a line of JSON each way. It is not the
# service, which stands still with the agent.
HALT_PORT = 6092
STOP, GO = "stop", "go"

# Set by the gateway's door on each request, which drops what a client sends under these names.
SESSION_HEADER = "x-deskyard-session"
SCOPES_HEADER = "x-deskyard-scopes"
# Where the desktop's own page is for people: a stream is shown there, by its id in the page's fragment.
PAGE_HEADER = "x-deskyard-page"
# Of an answer that is no JSON: what of it is content, never an instruction.
UNTRUSTED_HEADER = "x-deskyard-untrusted"

# A stream that people look at, through the filter: its id as the service draws it, in a form that HAProxy reads too.
STREAMS_PATH = "/v1/streams"
STREAM_BYTES = 9
STREAM_ID = "[A-Za-z0-9_-]{12}"
# From the gateway's door to its filter: the connection is to that stream, and not to the screen.
STREAM_HEADER = "x-deskyard-stream"

# What was recorded, which people read through the door: all that there is, or what one segment holds.
RECORDINGS_PATH = "/v1/recordings"
RECORDED = "/[0-9]{1,20}/(frames|actions)"
