/**
 * A server that speaks the session protocol and has a file system in memory: what a test sees through it came from no disk.
 */

import { PassThrough, type Readable, type Writable } from "node:stream";

import { encodeFrame, FrameReader, type Header, isObject } from "../src/frames.ts";
import type { Session } from "../src/program.ts";

export const PROJECT = "/home/user/project";

export interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: Record<string, unknown>;
  readonly body: Buffer;
}

export interface Command {
  readonly command: readonly string[];
  readonly params: Record<string, unknown>;
  out(text: string | Buffer): void;
  err(text: string): void;
  end(result: Record<string, unknown>): void;
  readonly cancelled: Promise<void>;
}

const HELLO = {
  protocol: 1,
  aisb: "0.1.0",
  run: "3f2a19bc",
  container: "aisb-run-3f2a19bc",
  image: "aisb-sandbox:1",
  user: "user",
  home: "/home/sandbox",
  cwd: PROJECT,
  project: PROJECT,
  mounts: [{ source: PROJECT, target: PROJECT, readOnly: false }],
  protected: [],
  masked: [],
  policy: { net: "none", allow: [], gate: null },
  limits: {},
  startMs: 1,
};

type Handler = (request: Request, server: FakeServer) => void;

export class FakeServer {
  readonly requests: Request[] = [];
  /** Bodies of what came unasked: pieces of uploads. */
  readonly bodies: Buffer[] = [];
  readonly notices: { method: string; params: Record<string, unknown> }[] = [];
  readonly files = new Map<string, Buffer>();
  readonly directories = new Set<string>(["/", "/tmp", "/home", "/home/user", PROJECT]);
  readonly commands: Command[] = [];
  /** What a command does; at first it says what it is, and succeeds. */
  onCommand: (command: Command) => void = (command) => {
    command.out(`inside: ${command.command.join(" ")}`);
    command.end({ exitCode: 0, signal: null, ended: "exit", durationMs: 1 });
  };
  readonly handlers = new Map<string, Handler>();
  readonly #cancels = new Map<number, () => void>();
  readonly #uploads = new Map<number, { pieces: Buffer[]; done: (content: Buffer) => void }>();
  readonly #reader = new FrameReader();
  readonly #output: Writable;

  constructor(input: Readable, output: Writable) {
    this.#output = output;
    input.on("data", (bytes: Buffer) => {
      for (const { header, body } of this.#reader.push(bytes)) this.#take(header, body);
    });
  }

  hello(changes: Record<string, unknown> = {}): this {
    return this.notify("hello", { ...HELLO, ...changes });
  }

  /** The sandbox is there again: another run. */
  again(changes: Record<string, unknown>): this {
    return this.notify("sandbox", { state: "ready", reason: "", hello: { ...HELLO, ...changes } });
  }

  notify(method: string, params: Record<string, unknown>, body?: Buffer): this {
    this.#output.write(encodeFrame({ jsonrpc: "2.0", method, params }, body));
    return this;
  }

  answer(id: number, result: Record<string, unknown>, body?: Buffer): void {
    this.#output.write(encodeFrame({ jsonrpc: "2.0", id, result }, body));
  }

  refuse(id: number, code: number, message: string, data: Record<string, unknown> = {}): void {
    this.#output.write(encodeFrame({ jsonrpc: "2.0", id, error: { code, message, data } }));
  }

  frame(header: Header): void {
    this.#output.write(encodeFrame(header));
  }

  put(path: string, content: string | Buffer): void {
    this.files.set(path, Buffer.from(content));
    for (let at = path.slice(0, path.lastIndexOf("/")); at !== ""; at = at.slice(0, at.lastIndexOf("/"))) this.directories.add(at);
  }

  #take(header: Header, body: Buffer): void {
    const params = isObject(header["params"]) ? header["params"] : {};
    const method = String(header["method"]);
    if (typeof header["id"] !== "number") {
      this.notices.push({ method, params });
      this.bodies.push(body);
      if (method === "cancel") this.#cancels.get(Number(params["id"]))?.();
      if (method === "data") this.#uploaded(Number(params["id"]), params["last"] === true, body);
      return;
    }
    const request = { id: header["id"], method, params, body };
    this.requests.push(request);
    const handler = this.handlers.get(method);
    if (handler) handler(request, this);
    else this.#serve(request);
  }

  #serve({ id, method, params, body }: Request): void {
    const path = String(params["path"] ?? "");
    const missing = () => this.refuse(id, -32010, "No such file or directory", { errno: "ENOENT", path });
    const isDirectory = this.directories.has(path);
    const file = this.files.get(path);
    if (method === "exec") return this.#execute(id, params);
    if (method === "mkdir") {
      this.directories.add(path);
      return this.answer(id, { created: true });
    }
    if (method === "writeFile") return this.#write(id, path, params["more"] === true, body);
    if (method === "status") return this.answer(id, { uptimeMs: 61_000, allowed: 2, denied: 1, restarts: 0 });
    if (method === "allow") {
      if (/\.\./.test(String(params["entry"]))) {
        return this.refuse(id, -32020, `aisb allow: ${params["entry"]} is no name`, { exitCode: 2, hint: "write: aisb --allow a.test" });
      }
      const entries = String(params["entry"]).split(",");
      const opened = entries.filter((entry) => !/^\d/.test(entry));
      const note = opened.length < entries.length ? { note: "nothing is opened by that: aisb --allow 192.0.2.1" } : {};
      return this.answer(id, { entries, opened, ...note });
    }
    if (file === undefined && !isDirectory) return missing();
    if (method === "access") return this.answer(id, {});
    if (method === "stat") return this.answer(id, { type: isDirectory ? "directory" : "file", size: file?.length ?? 0 });
    if (method === "readdir") return this.answer(id, { more: false }, Buffer.from(JSON.stringify(this.#entries(path))));
    if (method === "readFile" && file) {
      const offset = Number(params["offset"] ?? 0);
      const piece = file.subarray(offset, params["length"] === undefined ? undefined : offset + Number(params["length"]));
      const half = Math.floor(piece.length / 2);
      this.notify("data", { id, stream: "file" }, piece.subarray(0, half));
      return this.answer(id, { size: file.length, mtimeMs: 0, bytes: piece.length }, piece.subarray(half));
    }
    return this.refuse(id, -32601, `no such method: ${method}`);
  }

  #entries(directory: string): [string, string][] {
    const prefix = directory === "/" ? "/" : `${directory}/`;
    const of = (paths: Iterable<string>, kind: string): [string, string][] =>
      [...paths]
        .filter((path) => path !== directory && path.startsWith(prefix) && !path.slice(prefix.length).includes("/"))
        .map((path) => [path.slice(prefix.length), kind]);
    return [...of(this.files.keys(), "file"), ...of(this.directories, "directory")].sort();
  }

  #write(id: number, path: string, more: boolean, body: Buffer): void {
    const done = (content: Buffer) => {
      this.files.set(path, content);
      this.answer(id, { bytes: content.length, created: true, atomic: true });
    };
    if (!more) return done(body);
    this.#uploads.set(id, { pieces: [body], done });
    if (body.length > 0) this.notify("taken", { id, bytes: body.length });
  }

  #uploaded(id: number, last: boolean, body: Buffer): void {
    const upload = this.#uploads.get(id);
    if (!upload) return;
    upload.pieces.push(body);
    this.notify("taken", { id, bytes: body.length });
    if (last) upload.done(Buffer.concat(upload.pieces));
  }

  #execute(id: number, params: Record<string, unknown>): void {
    const command: Command = {
      command: params["command"] as string[],
      params,
      out: (text) => this.notify("data", { id, stream: "stdout" }, Buffer.from(text)),
      err: (text) => this.notify("data", { id, stream: "stderr" }, Buffer.from(text)),
      end: (result) => this.answer(id, result),
      cancelled: new Promise((resolve) => this.#cancels.set(id, resolve)),
    };
    this.commands.push(command);
    this.onCommand(command);
  }
}

export interface FakeSession extends Session {
  readonly server: FakeServer;
  /** The process ends by itself. */
  die(how?: string): void;
  readonly said: string[];
  isStopped: boolean;
}

/** A session as program.ts starts it, without a process. */
export function fakeSession(): FakeSession {
  const [toServer, toClient] = [new PassThrough(), new PassThrough()];
  let finish: (how: string) => void = () => undefined;
  const ended = new Promise<string>((resolve) => {
    finish = resolve;
  });
  const session: FakeSession = {
    input: toClient,
    output: toServer,
    said: [],
    ended,
    isStopped: false,
    server: new FakeServer(toServer, toClient),
    die: (how = "exit code 69") => {
      toClient.end();
      finish(how);
    },
    stop: async () => {
      session.isStopped = true;
      finish("exit code 0");
    },
  };
  return session;
}
