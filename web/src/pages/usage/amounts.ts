// Whole numbers of the API in the words of a person: they are divided last, and only to be read.

export const hours = (microseconds: number): string => (microseconds / 3_600_000_000).toFixed(2);

/** Two digits after the point, or as many as it needs to be more than nothing. */
export function units(micros: number): string {
  const whole = micros / 1_000_000;
  return whole > 0 && whole < 0.005 ? amountOf(micros) : whole.toFixed(2);
}

/** As a person types it. */
export const amountOf = (micros: number): string => String(micros / 1_000_000);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes in the largest unit of which there is a whole one. */
export function bytes(count: number): string {
  const power = Math.min(Math.max(Math.floor(Math.log2(count) / 10), 0), UNITS.length - 1);
  return `${power ? (count / 1024 ** power).toFixed(1) : count} ${UNITS[power]}`;
}

/** Millionths of what a person typed; null for what is no amount. */
export function microsOf(text: string): number | null {
  const match = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text.trim());
  return match ? Number(match[1]) * 1_000_000 + Number((match[2] ?? "").padEnd(6, "0")) : null;
}

/** Bytes of what a person typed, GiB unless it names another unit; null for what is no such amount. */
export function bytesOf(text: string): number | null {
  const match = /^(\d{1,9}(?:\.\d{1,6})?)\s*([KMGTP]iB|B)?$/.exec(text.trim());
  return match ? Math.round(Number(match[1]) * 1024 ** UNITS.indexOf(match[2] ?? "GiB")) : null;
}
