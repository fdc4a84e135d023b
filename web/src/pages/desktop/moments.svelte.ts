import { list, problemOf } from "../../api/client";
import type { Moment, MomentKind, ProblemDetails, Timeline } from "../../api/types";
import { byText } from "../../state/collection.svelte";
import { estate } from "../../state/estate.svelte";
import type { Talk } from "./talk.svelte";

const PAGE = 100;

/** What of a desktop's time is shown: words for a person, and the kinds of it. */
export const CHOICES: Record<string, readonly MomentKind[]> = {
  everything: [],
  "what was said": ["message", "tool"],
  "what was done to it": ["operation", "machine", "task"],
  "who was there": ["session"],
  "refused and asked": ["refusal", "approval"],
  alerts: ["alert"],
};

/** What happened to a desktop: as far back as somebody reads, and what is told of meanwhile. */
export class Moments {
  choice = $state("everything");
  before = $state("");
  readAt = $state<string | null>(null);
  loaded = $state(false);
  busy = $state(false);
  next = $state<string | null>(null);
  problem = $state.raw<ProblemDetails | null>(null);
  #kept = $state.raw<Moment[]>([]);
  #asked = 0;

  constructor(
    readonly desktopId: string,
    readonly talk: Talk,
  ) {}

  /** The newest first; what an event told of is newer than any list. */
  readonly all = $derived.by((): Moment[] => {
    const live = this.before ? [] : this.#live();
    const told = new Set(live.map((moment) => moment.id));
    const kept = this.#kept.filter(({ id, subject }) => !told.has(id) && !estate.forgotten.get(subject));
    return [...live, ...kept].sort(
      (left, right) => Date.parse(right.at) - Date.parse(left.at) || byText(right.id, left.id),
    );
  });

  /** Begin anew, with what is chosen now. */
  load(): Promise<void> {
    return this.#ask(null);
  }

  more(): Promise<void> {
    return this.#ask(this.next);
  }

  async #ask(after: string | null): Promise<void> {
    const turn = ++this.#asked;
    const before = this.before ? new Date(this.before).toISOString() : null;
    this.busy = true;
    this.problem = null;
    try {
      const path = `/api/desktops/${this.desktopId}/timeline`;
      const page = (await list<Moment>(path, { kind: CHOICES[this.choice], before, limit: PAGE, after })) as Timeline;
      if (turn !== this.#asked) return;
      this.#kept = after ? [...this.#kept, ...page.items] : page.items;
      this.next = page.nextCursor;
      this.readAt = page.readAt;
      this.loaded = true;
    } catch (error) {
      if (turn === this.#asked) this.problem = problemOf(error);
    } finally {
      if (turn === this.#asked) this.busy = false;
    }
  }

  /** What is known of this desktop without asking, no older than what is shown, or there would be gaps. */
  #live(): Moment[] {
    const kinds = CHOICES[this.choice];
    const oldest = this.next ? Date.parse(this.#kept.at(-1)?.at ?? "") : -Infinity;
    return [...this.#operations(), ...this.#messages(), ...this.#approvals(), ...this.#alerts()].filter(
      (moment) => (!kinds?.length || kinds.includes(moment.kind)) && Date.parse(moment.at) >= oldest,
    );
  }

  #operations(): Moment[] {
    return estate.operations
      .all()
      .filter(({ desktopId, kind }) => desktopId === this.desktopId && kind !== "desktop.chat")
      .map(({ id, createdAt, kind, actor, problem, why, state }) =>
        moment("operation", id, createdAt, { what: kind, actor, detail: problem?.reason ?? why ?? "", state, subject: id }),
      );
  }

  #messages(): Moment[] {
    const conversations = new Set(this.talk.conversations.map((conversation) => conversation.id));
    return estate.messages
      .all()
      .filter((message) => conversations.has(message.conversationId))
      .flatMap(({ id, at, role, author, text, state, tools, conversationId }) => {
        const said = { actor: author, subject: conversationId };
        const used = tools.map((tool) => {
          const what = { what: tool.name, detail: tool.arguments, state: tool.state };
          return moment("tool", `${id}:${tool.id}`, tool.startedAt, { ...said, ...what });
        });
        return [moment("message", id, at, { ...said, what: role, detail: text, state }), ...used];
      });
  }

  #approvals(): Moment[] {
    return estate.approvals
      .all()
      .filter((approval) => approval.desktopId === this.desktopId)
      .map(({ id, since, name, port, decidedBy, reason, state }) => {
        const known = { actor: decidedBy ?? "", detail: reason, state, subject: id };
        return moment("approval", id, since, { ...known, what: `${name}:${port}` });
      });
  }

  /** Whom an alert is about is the last word of its object. */
  #alerts(): Moment[] {
    return estate.alerts
      .all()
      .filter(({ object }) => object.split(" ").at(-1) === this.desktopId)
      .map(({ id, openedAt, closedAt, rule, acknowledgedBy, text }) => {
        const state = closedAt ? "closed" : "open";
        return moment("alert", id, openedAt, { what: rule, actor: acknowledgedBy ?? "", detail: text, state, subject: id });
      });
  }
}

function moment(kind: MomentKind, id: string, at: string, known: Omit<Moment, "id" | "kind" | "at" | "times">): Moment {
  return { id: `${kind}:${id}`, kind, at, times: 1, ...known };
}
