// Whether the database took what was sent last: on a full disk it shows what there is, and keeps nothing new.
import { databaseAnswered } from "../api/client";
import type { ProblemDetails } from "../api/types";
import { connection } from "./connection.svelte";

class Database {
  /** Why it keeps nothing now, and what to do; null once it has kept something again. */
  problem = $state.raw<ProblemDetails | null>(null);

  constructor() {
    databaseAnswered.handler = (problem) => (this.problem = problem);
    // Each event of the stream is a row that was written.
    for (const kind of ["desktop", "operation", "workspace", "message", "alert"]) connection.on(kind, () => (this.problem = null));
  }
}

export const database = new Database();
