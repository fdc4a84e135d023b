import { list, post, problemOf } from "../../api/client";
import type { Conversation, Operation, ProblemDetails } from "../../api/types";
import { estate } from "../../state/estate.svelte";

/** What is said to a desktop's agent, and what was done to the desktop: its conversations and operations. */
export class Talk {
  conversations = $state.raw<Conversation[]>([]);
  current = $state<string | null>(null);
  loaded = $state(false);
  problem = $state.raw<ProblemDetails | null>(null);
  /** Whether somebody wants this conversation, or a new one, rather than the newest that there is. */
  #chosen = false;
  readonly #turns = new Set<string>();

  constructor(readonly desktopId: string) {}

  readonly messages = $derived(estate.messages.all().filter((message) => message.conversationId === this.current));
  readonly forgotten = $derived(this.current !== null && estate.forgotten.get(this.current) !== undefined);
  readonly busy = $derived(this.messages.some((message) => ["queued", "sent", "streaming"].includes(message.state)));

  load(): void {
    const since = performance.now();
    void this.#try(() => this.#list());
    void this.#try(async () => {
      const page = await list<Operation>("/api/operations", { desktop: this.desktopId, limit: 100 });
      estate.operations.merge(page.items, since);
    });
  }

  /** Show another conversation, or begin a new one by null. */
  show(conversationId: string | null): void {
    this.#chosen = true;
    this.current = conversationId;
    void this.#try(() => this.#history());
  }

  /** A turn that begins may be of a conversation that was begun elsewhere. */
  hear({ id, kind, desktopId }: Operation): void {
    if (kind !== "desktop.chat" || desktopId !== this.desktopId || this.#turns.has(id)) return;
    this.#turns.add(id);
    void this.#try(() => this.#list());
  }

  /** Whether the message is stored: then it is sent, whatever happens here. */
  send(message: string): Promise<boolean> {
    return this.#try(async () => {
      if (this.forgotten) this.current = null;
      const asked = this.current ? { message, conversationId: this.current } : { message };
      const answer = await post<{ conversationId: string }>(`/api/desktops/${this.desktopId}/chat`, asked);
      if (this.current === answer.conversationId) return;
      this.current = answer.conversationId;
      this.load();
    });
  }

  interrupt(): Promise<boolean> {
    return this.#try(() => post(`/api/conversations/${this.current}/interrupt`));
  }

  async #list(): Promise<void> {
    const page = await list<Conversation>("/api/conversations", { desktop: this.desktopId, limit: 50 });
    this.conversations = page.items;
    if (!this.#chosen) this.current ??= page.items[0]?.id ?? null;
    this.loaded = true;
    await this.#history();
  }

  async #history(): Promise<void> {
    if (this.current) await estate.loadMessages(this.current);
  }

  async #try(act: () => Promise<unknown>): Promise<boolean> {
    this.problem = null;
    try {
      await act();
      return true;
    } catch (error) {
      this.problem = problemOf(error);
      return false;
    }
  }
}
