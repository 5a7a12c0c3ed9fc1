/**
 * Frames: what goes over the pipes to `aisb serve`, and back. docs/session-protocol.md has the layout.
 *
 * Everything that arrives is held to the layout and to its caps: whatever is not a frame is the end of the session.
 */

export const MOST_BYTES = 1_048_576;
const LENGTHS_BYTES = 8;
const DEEPEST = 16;

/** A header as it came: one JSON object, not looked at any further. */
export type Header = Readonly<Record<string, unknown>>;

export interface Frame {
  readonly header: Header;
  readonly body: Buffer;
}

/** What came is no frame of this protocol. */
export class ProtocolError extends Error {
  override name = "ProtocolError";
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes of one frame. Throws a RangeError for more than the protocol carries in one. */
export function encodeFrame(header: Header, body: Uint8Array = Buffer.alloc(0)): Buffer {
  const text = Buffer.from(JSON.stringify(header), "utf8");
  if (text.length > MOST_BYTES || body.length > MOST_BYTES) {
    throw new RangeError("this is more than one frame of the session can carry (1 MiB)");
  }
  const lengths = Buffer.alloc(LENGTHS_BYTES);
  lengths.writeUInt32BE(text.length, 0);
  lengths.writeUInt32BE(body.length, 4);
  return Buffer.concat([lengths, text, body]);
}

/** Takes bytes as they come, in pieces of any size, and gives the frames that are whole. */
export class FrameReader {
  readonly #pieces: Buffer[] = [];
  #held = 0;
  #wanted = LENGTHS_BYTES;
  #lengths: { header: number; body: number } | undefined;

  /** The frames that this piece completes. Throws a ProtocolError; after that the reader is of no use. */
  push(piece: Buffer): Frame[] {
    this.#pieces.push(piece);
    this.#held += piece.length;
    const frames: Frame[] = [];
    while (this.#held >= this.#wanted) {
      const bytes = this.#take(this.#wanted);
      if (this.#lengths === undefined) {
        this.#lengths = readLengths(bytes);
        this.#wanted = this.#lengths.header + this.#lengths.body;
        continue;
      }
      const { header } = this.#lengths;
      frames.push({ header: readHeader(bytes.subarray(0, header)), body: bytes.subarray(header) });
      this.#lengths = undefined;
      this.#wanted = LENGTHS_BYTES;
    }
    return frames;
  }

  /** Whether the stream may end here: between two frames. */
  get isBetweenFrames(): boolean {
    return this.#held === 0 && this.#lengths === undefined;
  }

  #take(count: number): Buffer {
    const all = this.#pieces.length === 1 && this.#pieces[0] ? this.#pieces[0] : Buffer.concat(this.#pieces);
    this.#pieces.length = 0;
    this.#held = all.length - count;
    if (this.#held > 0) this.#pieces.push(all.subarray(count));
    return all.subarray(0, count);
  }
}

function readLengths(bytes: Buffer): { header: number; body: number } {
  const header = bytes.readUInt32BE(0);
  const body = bytes.readUInt32BE(4);
  if (header < 2 || header > MOST_BYTES || body > MOST_BYTES) {
    throw new ProtocolError(`a frame of ${header} and ${body} bytes`);
  }
  return { header, body };
}

function readHeader(bytes: Buffer): Header {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(bytes));
  } catch {
    throw new ProtocolError("a header that is no JSON in UTF-8");
  }
  if (!isObject(value)) throw new ProtocolError("a header that is no object");
  if (value["jsonrpc"] !== "2.0") throw new ProtocolError("a header that is no JSON-RPC 2.0");
  if (depth(value, 0) > DEEPEST) throw new ProtocolError(`a header nested more than ${DEEPEST} deep`);
  return value;
}

function depth(value: unknown, above: number): number {
  if (typeof value !== "object" || value === null || above > DEEPEST) return above;
  return Object.values(value).reduce<number>((deepest, one) => Math.max(deepest, depth(one, above + 1)), above + 1);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
