// Every request of the pages: JSON there and back, and one kind of error.
import type { Page, ProblemDetails } from "./types";

const SECONDS = 40;

/** A refusal of the API, or its silence, in the words that a page shows. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: ProblemDetails,
  ) {
    super(problem.reason);
  }
}

/** Called once for each answer that says that nobody is signed in. */
export const signedOut = { handler: (): void => undefined };

/** Called with why the database keeps nothing now, and with null once it has kept something again. */
export const databaseAnswered = { handler: (_problem: ProblemDetails | null): void => undefined };

// A request that got no answer may have been done: sent again soon, it carries the same key, and the API does it once.
// Later it is another: to stop an agent anew is not answered with how it was stopped before.
const RETRY_MILLISECONDS = 120_000;
const unanswered = new Map<string, { key: string; at: number }>();

export const get = <T>(path: string): Promise<T> => request<T>("GET", path);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => request<T>("POST", path, body);
/** `changedAt` is that of what was read, null where there was none: what somebody else changed meanwhile stays. */
export const put = <T>(path: string, body: unknown, changedAt?: string | null): Promise<T> =>
  request<T>("PUT", path, body, condition(changedAt));
export const del = <T>(path: string, body?: unknown): Promise<T> => request<T>("DELETE", path, body);

export type Filter = Record<string, string | number | readonly string[] | null | undefined>;

/** One page of a list; `filter` holds what is asked for, empty values left out. */
export function list<T>(path: string, filter: Filter): Promise<Page<T>> {
  const query = new URLSearchParams();
  for (const [name, given] of Object.entries(filter)) {
    for (const value of [given].flat()) {
      if (value !== null && value !== undefined && value !== "") query.append(name, String(value));
    }
  }
  return get<Page<T>>(`${path}?${query}`);
}

/** What a page shows of anything that was thrown. */
export function problemOf(error: unknown): ProblemDetails {
  if (error instanceof ApiError) return error.problem;
  return { reason: error instanceof Error ? error.message : String(error) };
}

function condition(changedAt?: string | null): Record<string, string> {
  if (changedAt === undefined) return {};
  return changedAt === null ? { "If-None-Match": "*" } : { "If-Match": `"${changedAt}"` };
}

async function request<T>(method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<T> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const sameAction = `${method} ${path} ${text}`;
  const headers: Record<string, string> = { Accept: "application/json", ...more };
  if (text !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") {
    headers["X-Deskyard"] = "1";
    headers["Idempotency-Key"] = keyOf(sameAction);
  }
  const response = await send(path, { method, headers, body: text });
  unanswered.delete(sameAction);
  if (response.status === 401 && !path.startsWith("/api/sign-in")) signedOut.handler();
  if (!response.ok) throw new ApiError(response.status, heard(method, response.status, await problemIn(response)));
  if (method !== "GET") databaseAnswered.handler(null);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

function keyOf(action: string): string {
  const before = unanswered.get(action);
  if (before && Date.now() - before.at < RETRY_MILLISECONDS) return before.key;
  const key = crypto.randomUUID();
  unanswered.set(action, { key, at: Date.now() });
  return key;
}

/** The problem of an answer; who shows all pages hears of a database that keeps nothing. */
function heard(method: string, status: number, problem: ProblemDetails): ProblemDetails {
  if (method !== "GET" && status === 503 && problem.field === "database") databaseAnswered.handler(problem);
  return problem;
}

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, {
      ...init,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(SECONDS * 1000),
    });
  } catch {
    throw new ApiError(0, {
      field: "network",
      value: path.split("?")[0],
      reason: "Mission Control did not answer",
      remedy: "Try again; if it stays away, look at `./inv control.status` on its host",
    });
  }
}

async function problemIn(response: Response): Promise<ProblemDetails> {
  try {
    const said = (await response.json()) as ProblemDetails & { title?: string; detail?: string };
    return { ...said, reason: said.reason ?? said.detail ?? said.title ?? `status ${response.status}` };
  } catch {
    return { reason: `Mission Control answered with status ${response.status} and no explanation` };
  }
}
