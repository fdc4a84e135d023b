// What there is: desktops, workspaces, operations and messages, from lists and then from events.
import { ApiError, get, list, problemOf } from "../api/client";
import type { Alert, Approval, Desktop, LogLine, Message, Operation, Page, ProblemDetails, Workspace } from "../api/types";
import { isOver } from "../words";
import { byText, Collection } from "./collection.svelte";
import { connection } from "./connection.svelte";

const PAGE = 500;
const KEPT = 5000;
// Places in the queue, the most that the API lists at once; asked for together with what happens within a second.
const PLACES = 200;
const SOON = 1000;
// To ask for these takes their secret from the page that waits for it.
const SECRET = ["desktop.session", "key.create", "person.invite"];

type Told<T> = T & { gone?: boolean };

class Estate {
  readonly desktops = new Collection<Desktop>(
    (left, right) => byText(left.workspaceId, right.workspaceId) || byText(left.name, right.name),
  );
  readonly workspaces = new Collection<Workspace>((left, right) => byText(left.name, right.name));
  readonly operations = new Collection<Operation>((left, right) => byText(right.createdAt, left.createdAt), KEPT);
  readonly messages = new Collection<Message>((left, right) => byText(left.at, right.at) || byText(left.id, right.id), KEPT);
  readonly approvals = new Collection<Approval>((left, right) => byText(right.since, left.since), KEPT);
  /** Alerts that were told of since the stream was opened. */
  readonly alerts = new Collection<Alert>((left, right) => byText(right.openedAt, left.openedAt), KEPT);
  /** Conversations that were deleted while the page was open. */
  readonly forgotten = new Collection<{ id: string }>((left, right) => byText(left.id, right.id), KEPT);
  loaded = $state(false);
  total = $state(0);
  problem = $state.raw<ProblemDetails | null>(null);
  #loading = false;
  #asked = false;
  #moving = 0;

  constructor() {
    this.#follow("desktop", this.desktops);
    this.#follow("workspace", this.workspaces);
    this.#follow("operation", this.operations);
    this.#follow("message", this.messages);
    this.#follow("approval", this.approvals);
    this.#follow("alert", this.alerts);
    // No list that is loaded here tells how they went on meanwhile; pages that show them ask anew.
    for (const each of [this.alerts, this.approvals]) {
      connection.on("reset", () => each.retain(new Set(), performance.now()));
    }
    connection.on("reset", () => void this.#askForEnds());
    connection.on("conversation", (data) => this.#forget((data as { id: string }).id));
    connection.on("operation", (data) => {
      this.#showAtDesktop(data as Operation);
      this.#moveUp(data as Operation);
    });
    connection.on("operation.log", (data) => this.#showProgress(data as LogLine & { operationId: string }));
    // Lists come after the stream is open, so that nothing falls between the two.
    connection.on("reset", () => void this.load());
    connection.on("lost", () => void (this.loaded || this.load()));
    // What could not be loaded while the server was away is loaded as soon as it is back.
    connection.on("resumed", () => void (this.problem && this.load()));
  }

  /** Load the fleet whole; asked while it loads, once more after that. */
  async load(): Promise<void> {
    this.#asked = true;
    if (this.#loading) return;
    this.#loading = true;
    while (this.#asked) {
      this.#asked = false;
      await this.#load();
    }
    this.#loading = false;
  }

  /** The newest operation of a kind that a workspace is known to have done. */
  lastDone(workspace: string, kind: string): Operation | undefined {
    const done = this.operations.all().filter((each) => each.workspaceId === workspace && each.kind === kind && each.state === "done");
    return done.toSorted((left, right) => Date.parse(right.endedAt ?? "") - Date.parse(left.endedAt ?? ""))[0];
  }

  /** Load what was said in a conversation, from its begin. */
  loadMessages(conversationId: string): Promise<void> {
    return this.#parts(`/api/conversations/${encodeURIComponent(conversationId)}/messages`, this.messages, () => undefined);
  }

  async #load(): Promise<void> {
    const since = performance.now();
    this.problem = null;
    try {
      await Promise.all([
        this.#whole("/api/workspaces", this.workspaces),
        this.#whole("/api/desktops", this.desktops, (page, total) => {
          this.total = total;
          this.operations.merge(page.flatMap(({ operation }) => operation ?? []), since);
        }),
      ]);
      this.loaded = true;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** What ended while no event was heard is told by no later one. */
  async #askForEnds(): Promise<void> {
    for (const { id, kind } of this.operations.all().filter((operation) => !isOver(operation))) {
      if (SECRET.includes(kind)) continue;
      try {
        await this.operations.answered(get<Operation>(`/api/operations/${id}`));
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) this.operations.remove(id);
      }
    }
  }

  async #whole<T extends { id: string }>(path: string, into: Collection<T>, seen = (_page: T[], _total: number): void => undefined) {
    const since = performance.now();
    const ids = new Set<string>();
    await this.#parts(path, into, (page) => {
      seen(page.items, page.total ?? ids.size + page.items.length);
      for (const item of page.items) ids.add(item.id);
    });
    into.retain(ids, since);
  }

  /** All parts of a list, each shown as it comes. */
  async #parts<T extends { id: string }>(path: string, into: Collection<T>, seen: (page: Page<T>) => void): Promise<void> {
    const since = performance.now();
    let after: string | null = null;
    do {
      const page: Page<T> = await list<T>(path, { limit: PAGE, after });
      into.merge(page.items, since);
      seen(page);
      after = page.nextCursor;
    } while (after);
  }

  /** A desktop shows what runs for it as soon as that is told. */
  #showAtDesktop(operation: Operation | undefined): void {
    const desktop = operation?.desktopId ? this.desktops.peek(operation.desktopId) : undefined;
    if (!operation || !desktop || operation.kind === "desktop.session") return;
    if (!isOver(operation)) this.desktops.put({ ...desktop, operation });
    else if (desktop.operation?.id === operation.id) this.desktops.put({ ...desktop, operation: null });
  }

  /** A line of its log is what an operation does now; no other event tells that. */
  #showProgress({ operationId, line }: LogLine & { operationId: string }): void {
    const known = this.operations.peek(operationId);
    if (!known || isOver(known)) return;
    const now = { ...known, progress: line };
    this.operations.put(now);
    this.#showAtDesktop(now);
  }

  /** Who waits in the queue moves up when another begins or ends, of which no event tells. */
  #moveUp({ state }: Operation): void {
    if (state === "queued" || this.#moving || !this.operations.all().some((each) => each.state === "queued")) return;
    this.#moving = window.setTimeout(() => {
      this.#moving = 0;
      const since = performance.now();
      list<Operation>("/api/operations", { state: "queued", limit: PLACES }).then(
        ({ items }) => {
          this.operations.merge(items, since);
          for (const { id } of items) this.#showAtDesktop(this.operations.peek(id));
        },
        () => undefined,
      );
    }, SOON);
  }

  #forget(conversationId: string): void {
    for (const message of this.messages.all()) {
      if (message.conversationId === conversationId) this.messages.remove(message.id);
    }
    this.forgotten.put({ id: conversationId });
  }

  #follow<T extends { id: string }>(event: string, into: Collection<T>): void {
    connection.on(event, (data) => {
      const item = data as Told<T>;
      if (item.gone) into.remove(item.id);
      else into.put(item);
    });
  }
}

export const estate = new Estate();
