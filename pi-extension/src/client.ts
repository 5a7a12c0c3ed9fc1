/**
 * The client of a session: requests and their answers, over two streams. It knows nothing of processes or of pi.
 */

import type { Readable, Writable } from "node:stream";

import { CallError, CANCELLED, GONE_IN_BETWEEN, NoSandboxError } from "./errors.ts";
import { encodeFrame, type Frame, FrameReader, type Header, isObject, MOST_BYTES, ProtocolError } from "./frames.ts";

/** Fewer than the protocol allows, so that `status` and `allow` are never in the way of a tool. */
const MOST_OPEN = 200;
/** How long a cancelled request may take to be answered; after that the caller waits no longer. */
const CANCEL_MILLISECONDS = 5_000;

export type Stream = "stdout" | "stderr" | "file";

export interface Answer {
  readonly result: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

export interface CallOptions {
  readonly body?: Uint8Array;
  /** What is sent after the request, in pieces that the other side makes room for. */
  readonly upload?: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly onData?: (stream: Stream, bytes: Buffer) => void;
  readonly signal?: AbortSignal | undefined;
}

interface Open {
  readonly method: string;
  readonly onData: CallOptions["onData"];
  underWay: number;
  room: (() => void) | undefined;
  settled: boolean;
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

/** Why nothing more will come; a violation is one of the other side's against the protocol. */
export interface End {
  readonly reason: string;
  readonly isViolation: boolean;
}

type Notice = (method: string, params: Readonly<Record<string, unknown>>) => void;

export class Client {
  readonly #reader = new FrameReader();
  readonly #open = new Map<number, Open>();
  readonly #waiting: (() => void)[] = [];
  readonly #output: Writable;
  readonly #notice: Notice;
  #nextId = 1;
  #ended: Error | undefined;
  readonly #onEnd: (end: End) => void;

  /**
   * `notice` gets what the other side says unasked. `onEnd` is called once, when nothing more will come; every open
   * request has failed by then.
   */
  constructor(input: Readable, output: Writable, notice: Notice, onEnd: (end: End) => void) {
    this.#output = output;
    this.#notice = notice;
    this.#onEnd = onEnd;
    input.on("data", (piece: Buffer) => this.#take(piece));
    input.on("end", () => this.#end(this.#reader.isBetweenFrames ? "the session has ended" : "the session broke off"));
    input.on("error", (error: Error) => this.#end(error.message));
    output.on("error", (error: Error) => this.#end(error.message));
  }

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** One request. Rejects with a CallError (the answer is one), or a NoSandboxError (the session is over). */
  async call(method: string, params: Header, options: CallOptions = {}): Promise<Answer> {
    if (options.signal?.aborted) throw new CallError(CANCELLED, "cancelled");
    while (this.#open.size >= MOST_OPEN && !this.#ended) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    if (this.#ended) throw this.#ended;
    // Checked again: the signal may have come while this waited for its turn.
    if (options.signal?.aborted) throw new CallError(CANCELLED, "cancelled");
    const id = this.#nextId++;
    return this.#start(id, method, params, options);
  }

  async #start(id: number, method: string, params: Header, options: CallOptions): Promise<Answer> {
    const body = options.body ?? Buffer.alloc(0);
    const frame = encodeFrame({ jsonrpc: "2.0", id, method, params }, body);
    let timer: NodeJS.Timeout | undefined;
    const onAbort = () => {
      this.#send({ jsonrpc: "2.0", method: "cancel", params: { id } });
      timer = setTimeout(() => {
        this.#settle(id, (open) => open.reject(new CallError(CANCELLED, "cancelled")));
      }, CANCEL_MILLISECONDS);
    };
    try {
      return await new Promise<Answer>((resolve, reject) => {
        const open: Open = {
          method,
          onData: options.onData,
          underWay: body.length,
          room: undefined,
          settled: false,
          resolve,
          reject,
        };
        this.#open.set(id, open);
        options.signal?.addEventListener("abort", onAbort, { once: true });
        this.#output.write(frame);
        if (options.upload) {
          this.#upload(id, open, options.upload).catch((error: unknown) => {
            this.#send({ jsonrpc: "2.0", method: "cancel", params: { id } });
            const reason = error instanceof Error ? error : new Error(String(error));
            this.#settle(id, (one) => one.reject(reason));
          });
        }
      });
    } finally {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Never more under way than the protocol allows: `taken` makes room. */
  async #upload(id: number, open: Open, pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
    for await (const piece of pieces) {
      for (let at = 0; at < piece.length; at += MOST_BYTES) {
        const part = piece.subarray(at, at + MOST_BYTES);
        while (open.underWay + part.length > MOST_BYTES && !open.settled) {
          await new Promise<void>((resolve) => {
            open.room = resolve;
          });
        }
        if (open.settled) return;
        open.underWay += part.length;
        this.#send({ jsonrpc: "2.0", method: "data", params: { id, last: false } }, part);
      }
    }
    if (!open.settled) this.#send({ jsonrpc: "2.0", method: "data", params: { id, last: true } });
  }

  #send(header: Header, body?: Uint8Array): void {
    if (!this.#ended) this.#output.write(encodeFrame(header, body));
  }

  #take(piece: Buffer): void {
    if (this.#ended) return;
    try {
      for (const frame of this.#reader.push(piece)) this.#handle(frame);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#end(`what came was not of the session: ${error.message}`, true);
      this.#output.destroy();
    }
  }

  #handle({ header, body }: Frame): void {
    if (typeof header["method"] === "string") {
      if ("id" in header) throw new ProtocolError("a request");
      const params = header["params"];
      if (!isObject(params)) throw new ProtocolError("a notification without parameters");
      this.#notified(header["method"], params, body);
      return;
    }
    this.#answered(header, body);
  }

  #notified(method: string, params: Record<string, unknown>, body: Buffer): void {
    if (method !== "data" && method !== "taken") {
      this.#notice(method, params);
      return;
    }
    const open = typeof params["id"] === "number" ? this.#open.get(params["id"]) : undefined;
    // Of a request that nobody waits for any more.
    if (open === undefined) return;
    if (method === "taken") {
      const bytes = params["bytes"];
      if (typeof bytes !== "number" || bytes < 0 || bytes > open.underWay) throw new ProtocolError("a wrong `taken`");
      open.underWay -= bytes;
      open.room?.();
      return;
    }
    const stream = params["stream"];
    if (stream !== "stdout" && stream !== "stderr" && stream !== "file") throw new ProtocolError("a wrong `data`");
    open.onData?.(stream, body);
  }

  #answered(header: Header, body: Buffer): void {
    const { id, error, result } = header;
    if (id === null && isObject(error)) {
      throw new ProtocolError(`a refusal of the session: ${String(error["message"])}`);
    }
    if (typeof id !== "number" || !Number.isSafeInteger(id)) throw new ProtocolError("an answer to nothing");
    if (isObject(error)) {
      const data = isObject(error["data"]) ? error["data"] : {};
      const failure = new CallError(Number(error["code"]), String(error["message"]), data);
      this.#settle(id, (open) => open.reject(failure));
    } else if (isObject(result)) {
      this.#settle(id, (open) => open.resolve({ result, body }));
    } else {
      throw new ProtocolError("an answer that is neither a result nor an error");
    }
  }

  #settle(id: number, settle: (open: Open) => void): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    open.settled = true;
    open.room?.();
    settle(open);
    this.#waiting.shift()?.();
  }

  #end(reason: string, isViolation = false): void {
    if (this.#ended) return;
    this.#ended = new NoSandboxError(reason);
    const lost = new CallError(GONE_IN_BETWEEN, `the sandbox is gone, and this may have been done in part: ${reason}`);
    for (const id of [...this.#open.keys()]) this.#settle(id, (open) => open.reject(lost));
    for (const waiting of this.#waiting.splice(0)) waiting();
    this.#onEnd({ reason, isViolation });
  }
}
