// What a person signs with a passkey before it is asked for: the worker does nothing without.
import { post } from "./client";
import { usePasskey } from "./passkeys";
import type { Intent } from "./types";

export interface Signature {
  intent: { intent: Record<string, unknown>; credential: unknown };
}

/** The signature over a kind of operation and its target; `shown` gets the sentence that is signed. */
export async function signed(kind: string, target: string, shown: (text: string) => void): Promise<Signature> {
  const asked = await post<Intent>("/api/intents", { kind, target });
  shown(asked.text);
  const credential = await usePasskey(asked.publicKey);
  return { intent: { intent: asked.intent, credential } };
}
