/** Files of the sandbox. Each path is one inside; nothing here touches a file of this machine. */

import { CallError } from "./errors.ts";
import { MOST_BYTES, ProtocolError } from "./frames.ts";
import type { Sandbox } from "./sandbox.ts";

/** What is held in memory of one file, at most: the size is the agent's to choose. */
const MOST_WHOLE_BYTES = 256 * MOST_BYTES;

/** The same of one directory's names: how many there are is the agent's to choose, too. */
const MOST_ENTRIES = 1_000_000;

export type Kind = "file" | "directory" | "symlink" | "fifo" | "socket" | "character" | "block";

interface Part {
  readonly piece: Buffer;
  /** Of the whole file, as far as it says so. */
  readonly size: number;
}

export class Files {
  readonly #sandbox: Sandbox;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  /** A whole file. */
  async read(path: string, signal?: AbortSignal): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let held = 0;
    for await (const piece of this.pieces(path, signal)) {
      pieces.push(piece);
      held += piece.length;
      if (held > MOST_WHOLE_BYTES) throw new Error(`${path} is larger than ${MOST_WHOLE_BYTES} bytes`);
    }
    return Buffer.concat(pieces);
  }

  /** A file's beginning. */
  async head(path: string, bytes: number, signal?: AbortSignal): Promise<Buffer> {
    return (await this.#part(path, 0, bytes, signal)).piece;
  }

  /** A file, piece by piece; the next is asked for when one is taken, so none waits in memory. */
  async *pieces(path: string, signal?: AbortSignal): AsyncGenerator<Buffer> {
    for (let offset = 0; ; ) {
      const { piece, size } = await this.#part(path, offset, MOST_BYTES, signal);
      if (piece.length === 0) return;
      yield piece;
      offset += piece.length;
      // Files of /proc have no size: there only the next piece tells.
      if (size > 0 && offset >= size) return;
    }
  }

  async write(path: string, content: Buffer, signal?: AbortSignal): Promise<void> {
    const body = content.subarray(0, MOST_BYTES);
    const rest = content.subarray(body.length);
    if (rest.length === 0) await this.#call("writeFile", { path }, path, { body, signal });
    else await this.#call("writeFile", { path, more: true }, path, { body, upload: [rest], signal });
  }

  /** A new file that nobody else may read, with what the stream yields. */
  async writeFrom(path: string, source: AsyncIterable<Buffer>): Promise<void> {
    const pieces = source[Symbol.asyncIterator]();
    // The request carries a piece already.
    const { value: body, done } = await pieces.next();
    const rest = { [Symbol.asyncIterator]: () => pieces };
    const more = done ? {} : { body, upload: rest };
    await this.#call("writeFile", { path, more: !done, mode: 0o600 }, path, more);
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#call("mkdir", { path, recursive: true }, path);
  }

  /** Rejects where the file cannot be used so; `mode` is letters of `rwx`. */
  async check(path: string, mode: string, signal?: AbortSignal): Promise<void> {
    await this.#call("access", { path, mode }, path, { signal });
  }

  async exists(path: string): Promise<boolean> {
    try {
      await this.check(path, "");
      return true;
    } catch (error) {
      if (error instanceof CallError && (error.code === "ENOENT" || error.code === "ENOTDIR")) return false;
      throw error;
    }
  }

  async isDirectory(path: string): Promise<boolean> {
    return (await this.#call("stat", { path }, path)).result["type"] === "directory";
  }

  /** The entries of a directory by name, each with what it is itself (a link is not followed). */
  async list(path: string): Promise<Map<string, Kind>> {
    const found = new Map<string, Kind>();
    let count = 0;
    for (let after: string | undefined; ; ) {
      const params = after === undefined ? { path } : { path, after };
      const { result, body } = await this.#call("readdir", params, path);
      const entries: unknown = JSON.parse(body.toString("utf8"));
      if (!Array.isArray(entries)) throw new ProtocolError("a directory that is no list");
      count += entries.length;
      if (count > MOST_ENTRIES) throw new Error(`${path} has more than ${MOST_ENTRIES} entries`);
      for (const entry of entries) {
        if (!Array.isArray(entry) || typeof entry[0] !== "string") throw new ProtocolError("an entry without a name");
        found.set(entry[0], entry[1] as Kind);
        after = entry[0];
      }
      if (result["more"] !== true || entries.length === 0) return found;
    }
  }

  async #part(path: string, offset: number, length: number, signal?: AbortSignal): Promise<Part> {
    const pieces: Buffer[] = [];
    let held = 0;
    const onData = (_stream: string, bytes: Buffer) => {
      held += bytes.length;
      if (held <= length) pieces.push(bytes);
    };
    const { result, body } = await this.#call("readFile", { path, offset, length }, path, { onData, signal });
    const size = typeof result["size"] === "number" ? result["size"] : 0;
    return { piece: Buffer.concat([...pieces, body]).subarray(0, length), size };
  }

  async #call(method: string, params: Record<string, unknown>, path: string, options = {}) {
    try {
      return await this.#sandbox.call(method, params, options);
    } catch (error) {
      // As Node words it, which is what pi and models know.
      if (error instanceof CallError && error.code && !error.message.includes(path)) {
        error.message = `${error.code}: ${error.message}, ${method} '${path}'`;
      }
      throw error;
    }
  }
}
