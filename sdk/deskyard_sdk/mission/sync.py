"""Mission Control for programs without asyncio: its calls wait for the answer."""

from collections.abc import Sequence

from deskyard_sdk.mission.client import AsyncMissionControl, Scope
from deskyard_sdk.sync import Desktop, Loop, opened, waits, yields


class MissionControl:
    """All desktops of a site that a key opens; made by `connect`, and closed at the end of `with`."""

    def __init__(self, loop: Loop, twin: AsyncMissionControl) -> None:
        self._loop, self._twin = loop, twin

    @classmethod
    def connect(cls, url: str, key: str, ca: str | None = None) -> "MissionControl":
        """Open it, as `AsyncMissionControl.connect` does."""
        return cls(*opened(AsyncMissionControl.connect(url, key, ca)))

    def __enter__(self) -> "MissionControl":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._loop.run(self._twin.close())
        self._loop.stop()

    def open(self, id: str, scopes: Sequence[Scope] | None = None) -> Desktop:
        """Open a desktop for this program, as `AsyncMissionControl.open` does."""
        return Desktop.connect(self.link(id, "agent", scopes), self._twin.ca)

    me = waits(AsyncMissionControl.me)
    version = waits(AsyncMissionControl.version)
    desktops = yields(AsyncMissionControl.desktops)
    desktop = waits(AsyncMissionControl.desktop)
    create = waits(AsyncMissionControl.create)
    start = waits(AsyncMissionControl.start)
    stop = waits(AsyncMissionControl.stop)
    restart = waits(AsyncMissionControl.restart)
    pause = waits(AsyncMissionControl.pause)
    resume = waits(AsyncMissionControl.resume)
    upgrade = waits(AsyncMissionControl.upgrade)
    preview_upgrade = waits(AsyncMissionControl.preview_upgrade)
    freeze = waits(AsyncMissionControl.freeze)
    thaw = waits(AsyncMissionControl.thaw)
    destroy = waits(AsyncMissionControl.destroy)
    link = waits(AsyncMissionControl.link)
    fleet = waits(AsyncMissionControl.fleet)
    say = waits(AsyncMissionControl.say)
    answer = waits(AsyncMissionControl.answer)
    conversations = yields(AsyncMissionControl.conversations)
    messages = yields(AsyncMissionControl.messages)
    export_conversation = waits(AsyncMissionControl.export_conversation)
    export_conversations = yields(AsyncMissionControl.export_conversations)
    interrupt = waits(AsyncMissionControl.interrupt)
    answer_question = waits(AsyncMissionControl.answer_question)
    retention = waits(AsyncMissionControl.retention)
    preview_retention = waits(AsyncMissionControl.preview_retention)
    set_retention = waits(AsyncMissionControl.set_retention)
    remove_retention = waits(AsyncMissionControl.remove_retention)
    workspaces = yields(AsyncMissionControl.workspaces)
    workspace = waits(AsyncMissionControl.workspace)
    act = waits(AsyncMissionControl.act)
    create_workspace = waits(AsyncMissionControl.create_workspace)
    destroy_workspace = waits(AsyncMissionControl.destroy_workspace)
    preview_destroy_workspace = waits(AsyncMissionControl.preview_destroy_workspace)
    begin_task = waits(AsyncMissionControl.begin_task)
    tasks = yields(AsyncMissionControl.tasks)
    release_task = waits(AsyncMissionControl.release_task)
    look = waits(AsyncMissionControl.look)
    verify = waits(AsyncMissionControl.verify)
    allow = waits(AsyncMissionControl.allow)
    take_snapshot = waits(AsyncMissionControl.take_snapshot)
    restore_snapshot = waits(AsyncMissionControl.restore_snapshot)
    back_up = waits(AsyncMissionControl.back_up)
    approvals = yields(AsyncMissionControl.approvals)
    approval = waits(AsyncMissionControl.approval)
    decide = waits(AsyncMissionControl.decide)
    approval_rules = waits(AsyncMissionControl.approval_rules)
    set_approval_rule = waits(AsyncMissionControl.set_approval_rule)
    remove_approval_rule = waits(AsyncMissionControl.remove_approval_rule)
    decide_operation = waits(AsyncMissionControl.decide_operation)
    operations = yields(AsyncMissionControl.operations)
    operation = waits(AsyncMissionControl.operation)
    wait = waits(AsyncMissionControl.wait)
    log = waits(AsyncMissionControl.log)
    cancel = waits(AsyncMissionControl.cancel)
    retry = waits(AsyncMissionControl.retry)
    events = yields(AsyncMissionControl.events)
    alerts = yields(AsyncMissionControl.alerts)
    timeline = yields(AsyncMissionControl.timeline)
    acknowledge = waits(AsyncMissionControl.acknowledge)
    silence = waits(AsyncMissionControl.silence)
    alert_rules = waits(AsyncMissionControl.alert_rules)
    set_alert_rules = waits(AsyncMissionControl.set_alert_rules)
    usage = waits(AsyncMissionControl.usage)
    usage_csv = waits(AsyncMissionControl.usage_csv)
    traffic_csv = waits(AsyncMissionControl.traffic_csv)
    metrics = waits(AsyncMissionControl.metrics)
    prices = waits(AsyncMissionControl.prices)
    set_prices = waits(AsyncMissionControl.set_prices)
    budgets = waits(AsyncMissionControl.budgets)
    set_budget = waits(AsyncMissionControl.set_budget)
    quotas = waits(AsyncMissionControl.quotas)
    set_quota = waits(AsyncMissionControl.set_quota)
    webhooks = waits(AsyncMissionControl.webhooks)
    make_webhook = waits(AsyncMissionControl.make_webhook)
    remove_webhook = waits(AsyncMissionControl.remove_webhook)
    test_webhook = waits(AsyncMissionControl.test_webhook)
    deliveries = waits(AsyncMissionControl.deliveries)
    keys = waits(AsyncMissionControl.keys)
    revoke_key = waits(AsyncMissionControl.revoke_key)
    people = waits(AsyncMissionControl.people)
    sessions = waits(AsyncMissionControl.sessions)
    end_session = waits(AsyncMissionControl.end_session)
    audit = yields(AsyncMissionControl.audit)
    export_audit = yields(AsyncMissionControl.export_audit)
    verify_audit = waits(AsyncMissionControl.verify_audit)
