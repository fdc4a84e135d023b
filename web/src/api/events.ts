// The one stream of events of the app.

export interface Stream {
  close(): void;
}

interface Listener {
  opened(): void;
  lost(forGood: boolean): void;
  event(name: string, data: unknown): void;
}

const NAMES = ["desktop", "operation", "operation.log", "workspace", "message", "conversation", "alert", "approval", "reset", "heartbeat"];

/** Open the stream. The browser resumes it after a cut where it ended; after a refusal it gives up for good. */
export function openStream(listener: Listener): Stream {
  const source = new EventSource("/api/events");
  source.onopen = () => listener.opened();
  source.onerror = () => listener.lost(source.readyState === EventSource.CLOSED);
  for (const name of NAMES) {
    source.addEventListener(name, (event) => listener.event(name, parsed(event.data)));
  }
  return source;
}

function parsed(data: string): unknown {
  return data ? JSON.parse(data) : null;
}
