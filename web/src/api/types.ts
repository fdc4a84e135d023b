// What the API answers, as its OpenAPI document has it.

export interface ProblemDetails {
  field?: string | null;
  value?: string | null;
  reason: string;
  remedy?: string | null;
  requestId?: string | null;
}

export interface Page<T> {
  items: T[];
  nextCursor: string | null;
  total?: number | null;
}

/** What an operation waits for: others than who asked. */
export interface Consent {
  strength: "worker";
  asker: string;
  asked: string;
  needed: number;
  answers: { actor: string; answer: string; at: string }[];
  until: string;
}

export type OperationState = "queued" | "running" | "waiting" | "done" | "failed" | "cancelled";

export interface Operation {
  id: string;
  kind: string;
  workspaceId: string | null;
  desktopId: string | null;
  state: OperationState;
  actor: string;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  cancelRequestedAt: string | null;
  forceFrom: string | null;
  attempt: number;
  position: number | null;
  why: string | null;
  progress: string | null;
  result: Record<string, unknown> | null;
  problem: ProblemDetails | null;
  consent: Consent | null;
}

export type DesktopState =
  | "declared"
  | "provisioning"
  | "booting"
  | "ready"
  | "stopping"
  | "stopped"
  | "paused"
  | "error"
  | "io-error"
  | "unknown";

export interface Desktop {
  id: string;
  name: string;
  workspaceId: string;
  tier: string;
  image: string;
  address: string;
  state: DesktopState;
  stateAt: string;
  detail: string;
  wanted: "running" | "off" | "paused" | null;
  routes: string[];
  agent: "openclaw" | "acp" | "none" | null;
  imageNow: string | null;
  upgradeTo: string | null;
  operation: Operation | null;
  generation: number;
  lastChatAt: string | null;
  frozenAt: string | null;
  lifetime: "kept" | "task";
  /** When one for a task goes. */
  until: string | null;
  /** Of one for a task: the next at the same seat has another. */
  machine: string | null;
}

export interface Tier {
  name: string;
  vcpus: number;
  memoryGib: number;
  diskGib: number;
  homeGib: number;
}

export interface Workspace {
  id: string;
  name: string;
  site: string;
  url: string;
  state: "ready" | "not ready" | "absent" | "stopped" | "unknown";
  egress: string;
  egressAllow: string[];
  image: string;
  tiers: Tier[];
  keys: string[];
  desktops: number;
  problem: ProblemDetails | null;
  seenAt: string;
  silence: string;
  silentSince: string | null;
  unseenSince: string | null;
  unseenWhy: string;
}

export interface Conversation {
  id: string;
  desktopId: string;
  title: string;
  createdAt: string;
  lastAt: string;
  messages: number;
}

export interface Tool {
  id: string;
  name: string;
  state: "running" | "done" | "failed" | "interrupted";
  startedAt: string;
  endedAt: string | null;
  arguments: string;
  argumentsCut: boolean;
  output: string;
  outputCut: boolean;
}

export interface Question {
  id: string;
  asked: string;
  options: { id: string; name: string; kind: string }[];
  strength: "courtesy";
  state: "open" | "answered" | "lapsed";
  askedAt: string;
  until: string;
  option: string | null;
  answeredBy: string | null;
  answeredAt: string | null;
  heard: boolean;
}

export interface Claimed {
  input: number;
  output: number;
  cached: number;
}

export interface Message {
  id: string;
  conversationId: string;
  role: "person" | "agent";
  author: string;
  text: string;
  state: "queued" | "sent" | "streaming" | "done" | "failed" | "interrupted";
  at: string;
  operationId: string | null;
  problem: ProblemDetails | null;
  tools: Tool[];
  moreTools: number;
  questions: Question[];
  claimed: Claimed | null;
}

export type MomentKind = "operation" | "machine" | "message" | "tool" | "approval" | "alert" | "session" | "refusal" | "task";

export interface Moment {
  id: string;
  kind: MomentKind;
  at: string;
  what: string;
  actor: string;
  detail: string;
  state: string;
  times: number;
  subject: string;
}

export interface Timeline extends Page<Moment> {
  readAt: string | null;
}

export interface Approval {
  id: string;
  workspaceId: string;
  desktopId: string;
  name: string;
  port: number;
  state: "waiting" | "allowed" | "refused" | "used" | "over" | "lapsed";
  strength: "gateway";
  tries: number;
  held: number;
  heldUntil: string | null;
  since: string;
  until: string;
  lastAt: string;
  answer: string | null;
  decidedBy: string | null;
  reason: string;
  decidedAt: string | null;
  endsAt: string | null;
  needed: number;
  answers: { actor: string; answer: string; at: string }[];
}

export interface ApprovalRuleChange {
  actor: string;
  remove: boolean;
  persons: number;
  roles: string[];
  people: string[];
  keys: string[];
  operations: string[];
  at: string;
}

export interface ApprovalRule {
  workspaceId: string;
  persons: number;
  roles: string[];
  people: string[];
  keys: string[];
  operations: string[];
  actor: string;
  changedAt: string;
  changes: ApprovalRuleChange[];
}

export interface Retention {
  workspaceId: string | null;
  days: number | null;
  actor: string;
  changedAt: string;
}

export interface WouldGo {
  conversations: number;
  messages: number;
  oldestAt: string | null;
  newestAt: string | null;
}

export interface Amounts {
  desktops: number;
  vcpus: number;
  memoryMib: number;
  diskGib: number;
  microsPerDay: number;
}

export interface Quota extends Record<keyof Amounts, number | null> {
  subject: string;
  used: Amounts;
  actor: string;
  changedAt: string;
}

export interface LogLine {
  number: number;
  at: string;
  line: string;
}

export interface Passkey {
  id: string;
  name: string;
  createdAt: string;
}

export interface Me {
  person: { id: string; name: string; role: string } | null;
  key: { id: string; name: string } | null;
  scopes: string[];
  gives: Gives | null;
  passkeys: Passkey[];
}

/** What an admin gives by the web. */
export interface Gives {
  roles: string[];
  scopes: string[];
  days: number;
  /** A workspace whose rule of approvals asks for another than who asks. */
  ruled: string | null;
  /** The command at the host that lets them give more. */
  widening: string | null;
}

export interface ApiKey {
  id: string;
  name: string;
  scopes: string[];
  workspaces: string[] | null;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
  revokedAt: string | null;
}

export interface Person {
  id: string;
  name: string;
  role: string;
  workspaces: string[] | null;
  byRule: boolean;
  rule: string | null;
  grantedAt: string | null;
  giver: string | null;
  gives: "viewer" | "operator";
  passkeys: number;
  account: "linked" | "offered" | null;
  invitedUntil: string | null;
  createdAt: string;
}

export interface Session {
  id: string;
  person: string;
  createdAt: string;
  seenAt: string;
  agent: string;
  current: boolean;
}

export interface AuditEntry {
  number: number;
  at: string;
  actor: string;
  action: string;
  target: string;
  detail: Record<string, unknown>;
  hash: string;
}

export interface AuditVerdict {
  ok: boolean;
  entries: number;
  head: string;
  problem: string | null;
  more: boolean;
}

export interface FleetAnswer {
  count: number;
  desktops: string[];
  operations: string[];
  upgrades: { id: string; imageNow: string | null; upgradeTo: string }[];
  skipped: { id: string; reason: string }[];
  toSign: string | null;
}

export interface Intent {
  intent: Record<string, unknown>;
  text: string;
  publicKey: PublicKeyCredentialRequestOptionsJSON;
}

export interface Alert {
  id: string;
  rule: string;
  title: string;
  object: string;
  workspaceId: string | null;
  text: string;
  number: number;
  unit: string;
  nextStep: string;
  openedAt: string;
  closedAt: string | null;
  acknowledgedAt: string | null;
  acknowledgedBy: string | null;
  silencedUntil: string | null;
}

export interface AlertRule {
  kind: string;
  title: string;
  enabled: boolean;
  number: number;
  unit: string;
  nextStep: string;
  changedAt: string;
}

export interface Webhook {
  id: string;
  url: string;
  actor: string;
  createdAt: string;
}

export interface MadeWebhook extends Webhook {
  secret: string;
}

export interface Used {
  workspaceId: string | null;
  desktopId: string | null;
  tier: string | null;
  day: string | null;
  microseconds: number;
  micros: number;
}

export interface ClaimedTokens extends Claimed {
  workspaceId: string | null;
  desktopId: string | null;
  day: string | null;
  turns: number;
}

export interface MeasuredTraffic {
  workspaceId: string | null;
  desktopId: string | null;
  day: string | null;
  name: string;
  connections: number;
  sent: number;
  received: number;
}

export interface Reading {
  workspaceId: string;
  readAt: string | null;
  problem: ProblemDetails | null;
}

export interface Usage {
  since: string;
  until: string;
  items: Used[];
  microseconds: number;
  micros: number;
  claimed: ClaimedTokens[];
  measured: MeasuredTraffic[];
  measuredLeftOut: number;
  readings: Reading[];
}

export interface Price {
  tier: string;
  microsPerHour: number;
  since: string;
  actor: string;
  changedAt: string;
}

export interface Budget {
  workspaceId: string;
  /** Of both bounds 0 says that there is none. */
  microsPerMonth: number;
  spent: number;
  bytesPerMonth: number;
  bytesSpent: number;
  bytesAt: string | null;
  closes: string[];
  closed: string[];
  changedAt: string;
}

/** A part of a look at a workspace: its rows, or why there are none. */
export interface Part<Row> {
  rows: Row[];
  problem: ProblemDetails | null;
}

export interface Refusal {
  desktop: string;
  target: string;
  reason: string;
  entry: string | null;
  count: number;
  last: string;
}

export interface Snapshot {
  desktop: string;
  name: string;
  text: string;
  made: number;
  expires: number | null;
  memory: boolean;
}

export interface Backup {
  desktop: string;
  id: string;
  made: number;
  verified: number | null;
}

/** A name that no desktop of a workspace reaches, whatever is allowed: why, by whom, since when. */
export interface Closed {
  entry: string;
  reason: string;
  actor: string;
  since: string;
}

/** What an operation `workspace.look` found. */
export interface Look {
  /** Looks of earlier releases have none. */
  health?: Part<{ machine: string; check: string; state: "ok" | "warning" | "failed"; detail: string; remedy: string }>;
  /** What is closed is not in looks of earlier releases, nor where the part could not be had. */
  allowed: Part<{ entry: string; declared: boolean; until: string | null; actor: string | null }> & { closed?: Closed[] };
  refusals: Part<Refusal>;
  keys: Part<{ name: string; fingerprint: string; desktops: string[] }>;
  snapshots: Part<Snapshot>;
  backups: Part<Backup>;
}

/** What an operation `workspace.verify` found. */
export interface Isolation {
  ok: boolean;
  seconds: number;
  topics: Record<string, [number, number]>;
  wrong: string[];
}

/** What would go with a workspace and what stays, as its host says it. */
export interface WorkspaceEnd {
  desktops: string[];
  tasks: string[];
  notice: string[];
  stays: string[];
  goes_too: string[];
  snapshots: Record<string, string[]>;
}
