/**
 * Paths as a model writes them, and what they mean inside.
 *
 * pi's own file tools look a path up on this machine before they ask their operations (an `access` to try other
 * spellings, a `realpath` to queue writers). So they are given a path below NOWHERE, where nothing can be: the look-up
 * ends there, and the operations take the prefix away again. It holds a random word, so that it cannot be in a file's text.
 */

import { randomBytes } from "node:crypto";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

// A device has nothing below it: the kernel answers ENOTDIR and follows no further part.
const NOWHERE = "/dev/null/";
const UNICODE_SPACES = /[\u00A0\u2000-\u200A\u202F\u205F\u3000]/g;

/** Where this path leads inside, absolute: as pi reads it, but `~` is the sandbox's home. */
export function insidePath(written: string, cwd: string, home: string): string {
  let path = written.replace(UNICODE_SPACES, " ");
  if (path.startsWith("@")) path = path.slice(1);
  if (path === "~" || path.startsWith("~/")) path = home + path.slice(1);
  else if (path.startsWith("file://")) path = fileURLToPath(path);
  return posix.resolve(cwd, path);
}

export class Veil {
  readonly #prefix = NOWHERE + randomBytes(12).toString("hex");

  /** What pi's tool is given for a path inside. */
  cover(inside: string): string {
    return this.#prefix + inside;
  }

  /** The path inside, from what pi's tool hands to its operations. Throws where it is not one of ours. */
  uncover(covered: string): string {
    if (covered === this.#prefix) return "/";
    if (!covered.startsWith(`${this.#prefix}/`)) throw new Error(`${covered} is not a path of the sandbox`);
    return covered.slice(this.#prefix.length);
  }

  /** The same value, with each covered path in its texts as the caller wrote it. */
  lift<Value>(value: Value, inside: string, written: string): Value {
    return this.#each(value, (text) =>
      text.includes(this.#prefix) ? text.replaceAll(this.cover(inside), written).replaceAll(this.#prefix, "") : text,
    ) as Value;
  }

  #each(value: unknown, change: (text: string) => string): unknown {
    if (typeof value === "string") return change(value);
    if (Array.isArray(value)) return value.map((one) => this.#each(one, change));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.#each(one, change)]));
  }
}
