"""The right that each call of the API asks for: a new call needs a row here, as it needs one who may ask it."""

from deskyard.control.people.scopes import ADMIN, APPROVALS, CHAT, DECIDE, DESTROY, READ, WRITE

# What everybody may ask who is somebody, of their own; an admin of all.
ANYBODY = """
DELETE /api/me/passkeys/{id}
DELETE /api/sessions/{id}
GET /api/me
GET /api/people
GET /api/sessions
POST /api/intents
POST /api/sign-out
"""
BY_SCOPE = {
    READ: """
GET /api/alert-rules
GET /api/alerts
GET /api/budgets
GET /api/conversations
GET /api/conversations/{id}/export
GET /api/conversations/{id}/messages
GET /api/desktops
GET /api/desktops/{id}
GET /api/desktops/{id}/timeline
GET /api/operations
GET /api/operations/{id}
GET /api/operations/{id}/log
GET /api/prices
GET /api/quotas
GET /api/retention
GET /api/retention/preview
GET /api/usage
GET /api/usage.csv
GET /api/usage/traffic.csv
GET /api/workspaces
GET /api/workspaces/{id}
GET /api/workspaces/{id}/conversations/export
GET /api/workspaces/{id}/tasks
POST /api/operations/{id}/cancel
POST /api/operations/{id}/retry
""",
    WRITE: """
DELETE /api/workspaces/{id}/tasks/{seat}
POST /api/alerts/{id}/acknowledge
POST /api/alerts/{id}/silence
POST /api/desktops
POST /api/desktops/{id}/backups
POST /api/desktops/{id}/freeze
POST /api/desktops/{id}/pause
POST /api/desktops/{id}/restart
POST /api/desktops/{id}/resume
POST /api/desktops/{id}/session
POST /api/desktops/{id}/snapshots
POST /api/desktops/{id}/start
POST /api/desktops/{id}/stop
POST /api/desktops/{id}/thaw
POST /api/desktops/{id}/upgrade/preview
POST /api/fleet/actions
POST /api/workspaces/{id}/look
POST /api/workspaces/{id}/tasks
POST /api/workspaces/{id}/verify
POST /api/workspaces/{id}/{verb}
""",
    DESTROY: """
DELETE /api/desktops/{id}
POST /api/desktops/{id}/destroy
POST /api/desktops/{id}/snapshots/{name}/restore
POST /api/desktops/{id}/upgrade
""",
    CHAT: """
POST /api/conversations/{id}/interrupt
POST /api/conversations/{id}/messages/{message}/questions/{question}/answer
POST /api/desktops/{id}/chat
""",
    ADMIN: """
DELETE /api/approval-rules/{workspace}
DELETE /api/keys/{id}
DELETE /api/people/{id}
DELETE /api/retention/{workspace}
DELETE /api/webhooks/{id}
DELETE /api/workspaces/{id}
GET /api/audit
GET /api/audit/export
GET /api/audit/verify
GET /api/keys
GET /api/metrics
GET /api/webhooks
GET /api/webhooks/{id}/deliveries
POST /api/approval-rules
POST /api/keys
POST /api/people
POST /api/people/{id}/link
POST /api/retention
POST /api/webhooks
POST /api/webhooks/{id}/test
POST /api/workspaces
POST /api/workspaces/{id}/destroy
POST /api/workspaces/{id}/destroy/preview
PUT /api/alert-rules
PUT /api/budgets/{workspace}
PUT /api/prices
PUT /api/quotas/{subject}
""",
    APPROVALS: """
GET /api/approval-rules
GET /api/approvals
GET /api/approvals/{id}
""",
    DECIDE: """
POST /api/approvals/{id}/decide
POST /api/operations/{id}/decide
POST /api/workspaces/{id}/allowed
""",
}
# Of each call, the scope; None where any will do.
RIGHTS: dict[str, str | None] = {call: scope for scope, calls in BY_SCOPE.items() for call in calls.split("\n")[1:-1]}
RIGHTS |= dict.fromkeys(ANYBODY.split("\n")[1:-1])
# What it is asked of may ask for another scope beside that: which, depends on the kind of operation, desktop or action.
DEPENDS = {
    "DELETE /api/workspaces/{id}/tasks/{seat}",
    "POST /api/fleet/actions",
    "POST /api/operations/{id}/cancel",
    "POST /api/operations/{id}/retry",
}
