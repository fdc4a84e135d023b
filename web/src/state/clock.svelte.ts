// One clock for all ages on the page.

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 1000);
  }
}

export const clock = new Clock();

/** How long a number of milliseconds is, in one unit. */
export function span(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
