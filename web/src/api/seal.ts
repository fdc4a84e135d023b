// A secret sealed to this page: whoever carries it here cannot open it. As deskyard/control/opening/seal.py has it.
const CURVE = { name: "ECDH", namedCurve: "P-256" };
const PURPOSE = new TextEncoder().encode("deskyard link\0");

export interface Sealed {
  key: string;
  box: string;
}

/** A fresh pair of keys, whose private half never leaves the browser. */
export class Seal {
  private constructor(
    readonly publicKey: string,
    readonly fingerprint: string,
    readonly own: CryptoKey,
  ) {}

  static async fresh(): Promise<Seal> {
    const pair = await crypto.subtle.generateKey(CURVE, false, ["deriveBits"]);
    const raw = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
    const digits = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return new Seal(written(raw), digits.slice(0, 32), pair.privateKey);
  }

  /** The field of what was sealed to this key for what was signed; null for anything else. */
  async opened(sealed: Sealed, target: string, field: string): Promise<string | null> {
    try {
      const found = (JSON.parse(await this.#text(sealed, target)) as Record<string, unknown>)[field];
      return typeof found === "string" ? found : null;
    } catch {
      return null;
    }
  }

  async #text(sealed: Sealed, target: string): Promise<string> {
    const point = read(sealed.key);
    const other = await crypto.subtle.importKey("raw", point, CURVE, false, []);
    const shared = await crypto.subtle.deriveBits({ name: "ECDH", public: other }, this.own, 256);
    const material = await crypto.subtle.importKey("raw", shared, "HKDF", false, ["deriveKey"]);
    const info = new Uint8Array([...PURPOSE, ...point, ...read(this.publicKey), ...new TextEncoder().encode(target)]);
    const kind = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info };
    const key = await crypto.subtle.deriveKey(kind, material, { name: "AES-GCM", length: 256 }, false, ["decrypt"]);
    const text = await crypto.subtle.decrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, key, read(sealed.box));
    return new TextDecoder().decode(text);
  }
}

function written(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function read(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
}
