// The browser's passkeys: made once at enrolment, used to sign in and to sign what destroys.
import { ApiError } from "./client";

/** A new passkey, after the person agreed. */
export async function makePasskey(options: PublicKeyCredentialCreationOptionsJSON): Promise<unknown> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return asked(navigator.credentials.create({ publicKey }));
}

/** The signature of a passkey over the challenge, after the person agreed. */
export async function usePasskey(options: PublicKeyCredentialRequestOptionsJSON): Promise<unknown> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return asked(navigator.credentials.get({ publicKey }));
}

/** Whether this browser can use passkeys as the pages need it. */
export function passkeysWork(): boolean {
  return typeof PublicKeyCredential !== "undefined" && "parseRequestOptionsFromJSON" in PublicKeyCredential;
}

async function asked(pending: Promise<Credential | null>): Promise<unknown> {
  try {
    const credential = await pending;
    if (credential) return (credential as PublicKeyCredential).toJSON();
  } catch (error) {
    throw refused(error instanceof DOMException ? error.name : String(error));
  }
  throw refused("none");
}

function refused(name: string): ApiError {
  const reason =
    name === "NotAllowedError"
      ? "no passkey answered: it was cancelled, took too long, or none here belongs to Mission Control"
      : "the browser refused to use a passkey";
  return new ApiError(0, {
    field: "passkey",
    value: name,
    reason,
    remedy: "Try again; an admin gives you a link that enrols a new one (Settings, New link), or the host: `./inv control.person NAME`",
  });
}
