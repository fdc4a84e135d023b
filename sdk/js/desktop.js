// A desktop of Deskyard for programs: each operation of ../openapi.json is a method that takes one object.

import { OPERATIONS } from "./operations.js";

const LEFT = 0.5; // of a session's time: then it is renewed
const AGAIN_MS = 5_000;
const OVER = [401, 403, 404]; // a gateway's answers of a session that is over; all else passes

export class DesktopError extends Error {
  constructor(field, value, reason, remedy, status = 0, body = {}) {
    super(`${field}${value ? ` = ${JSON.stringify(value)}` : ""}: ${reason}\n  -> ${remedy}`);
    Object.assign(this, { name: "DesktopError", field, value, reason, remedy, status, body });
  }
}

export class Desktop {
  #base;
  #token;
  #origin;
  #fetch;
  #WebSocket;
  #timer;

  constructor(base, facts = {}, options = {}) {
    const { token = "", ...rest } = facts;
    this.#base = base;
    this.#token = token;
    this.#origin = new URL(base).origin;
    this.#fetch = options.fetch ?? ((...asked) => globalThis.fetch(...asked));
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.facts = rest;
    if (token) this.#renewLater();
  }

  static async connect(link, options = {}) {
    const { origin, pathname, hash, protocol } = parsed(link);
    if (!["http:", "https:"].includes(protocol)) throw noLink(link);
    if (!hash) return new Desktop(origin + pathname.replace(/\/+$/, ""), {}, options);
    const asking = options.fetch ?? ((...asked) => globalThis.fetch(...asked));
    const request = { method: "POST", headers: { Origin: origin }, body: JSON.stringify({ ticket: hash.slice(1) }) };
    const facts = await (await answered(asking, `${origin}/redeem`, request)).json();
    if (!facts.routes?.includes("computer")) {
      throw new DesktopError("link", facts.desktop, "opens no session of a program", "ask for one with access.grant --mode agent");
    }
    return new Desktop(`${origin}${facts.path.replace(/\/+$/, "")}/computer`, facts, options);
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#token = "";
  }

  #renewLater() {
    const ends = 1000 * (this.facts.renew_before ?? this.facts.expires ?? 0);
    this.#timer = setTimeout(() => this.#renew(), Math.max(AGAIN_MS, (ends - Date.now()) * LEFT));
    this.#timer.unref?.(); // a program that is done is not kept
  }

  async #renew() {
    const address = this.#base.replace(/\/computer$/, "/renew");
    const request = { method: "POST", headers: { Origin: this.#origin, ...this.#bearer() }, body: "{}" };
    try {
      const { token, ...facts } = await (await answered(this.#fetch, address, request)).json();
      if (!this.#timer) return; // it was closed meanwhile
      if (!token) throw new Error("no answer of a gateway");
      this.#token = token;
      Object.assign(this.facts, facts);
    } catch (error) {
      // A session that is over is refused to the next request, too; after anything else it is asked again.
      if (OVER.includes(error.status) || !this.#timer) return;
    }
    this.#renewLater();
  }

  #bearer() {
    return this.#token ? { Authorization: `Bearer ${this.#token}` } : {};
  }

  #address(operation, asked) {
    const left = { ...asked };
    const path = operation.path.replace(/{(\w+)}/g, (_, name) => {
      const value = left[name];
      delete left[name];
      if (value === undefined || value === null || `${value}` === "") {
        throw new DesktopError(name, "", "is missing", `give ${name}`);
      }
      return encodeURIComponent(value);
    });
    const query = new URLSearchParams();
    for (const name of operation.query) {
      if (left[name] !== undefined && left[name] !== null) query.append(name, `${left[name]}`);
      delete left[name];
    }
    return [this.#base + path + (query.size || `${query}` ? `?${query}` : ""), left];
  }

  async #ask(operation, { signal, content, ...asked }, accept) {
    const [address, left] = this.#address(operation, asked);
    const headers = { Accept: accept, ...this.#bearer() };
    const request = { method: operation.method, headers, signal };
    if (operation.picture && content !== undefined) {
      headers["Content-Type"] = operation.picture;
      request.body = content;
    } else if (operation.body === "json") {
      headers["Content-Type"] = "application/json";
      request.body = JSON.stringify(left);
    } else if (operation.body === "binary") {
      headers["Content-Type"] = "application/octet-stream";
      request.body = content ?? "";
    }
    if (operation.body !== "json" && Object.keys(left).length) {
      const [name] = Object.keys(left);
      throw new DesktopError(name, "", "is not known here", `leave it out; known are: ${operation.query.join(", ") || "none"}`);
    }
    return answered(this.#fetch, address, request);
  }

  async _answer(operation, asked) {
    const response = await this.#ask(operation, asked, operation.answer === "json" ? "application/json" : "*/*");
    // The clipboard's picture comes where its text would.
    if (operation.answer === "json" && !response.headers.get("content-type")?.startsWith("image/")) return response.json();
    if (operation.answer === "json") return new Uint8Array(await response.arrayBuffer());
    if (operation.answer === "binary") return new Uint8Array(await response.arrayBuffer());
    await response.body?.cancel();
  }

  async *_events(operation, asked) {
    const response = await this.#ask(operation, asked, "text/event-stream");
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let kind = "";
    let text = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const lines = (text + decoder.decode(value, { stream: true })).split("\n");
        text = lines.pop();
        for (const line of lines) {
          if (line.startsWith("event: ")) kind = line.slice(7);
          else if (line.startsWith("data: ")) yield { event: kind, ...JSON.parse(line.slice(6)) };
        }
      }
    } finally {
      await reader.cancel().catch(() => {});
    }
  }

  _socket(operation, { signal, ...asked }) {
    if (!this.#WebSocket) {
      throw new DesktopError("WebSocket", "", "is not known to this program", "run it with node 22, or give a class as options.WebSocket");
    }
    const [address] = this.#address(operation, asked);
    const options = { protocols: operation.protocols, headers: this.#bearer() };
    const socket = new this.#WebSocket(address.replace(/^http/, "ws"), options);
    signal?.addEventListener("abort", () => socket.close(), { once: true });
    return socket;
  }
}

const HOW = { json: "_answer", binary: "_answer", none: "_answer", events: "_events", socket: "_socket" };
for (const [name, operation] of Object.entries(OPERATIONS)) {
  Object.defineProperty(Desktop.prototype, name, {
    value(asked = {}) {
      return this[HOW[operation.answer]](operation, asked);
    },
    writable: true,
  });
}

function noLink(link) {
  return new DesktopError("link", `${link}`.split("#")[0], "is no link to a desktop", "give the link of access.grant whole");
}

function parsed(link) {
  try {
    return new URL(link);
  } catch {
    throw noLink(link);
  }
}

async function answered(asking, address, request) {
  let response;
  try {
    response = await asking(address, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const reason = `does not answer (${error.cause?.code ?? error.message})`;
    const remedy = "look whether the desktop runs; give the gateway's CA to node in NODE_EXTRA_CA_CERTS";
    throw new DesktopError("link", address, reason, remedy);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  const reason = body?.reason ?? body?.message ?? `was answered with ${response.status}`;
  throw new DesktopError(body?.error ?? "answer", body?.value ?? "", reason, body?.remedy ?? "look at the gateway's log", response.status, body ?? {});
}
