/**
 * The life of a session's sandbox: made once, restarted once, and then gone for good.
 *
 * Everything that executes asks here first. There is no other answer than a sandbox that is ready, or an error.
 */

import { type Answer, type CallOptions, Client, type End } from "./client.ts";
import { advice, withAdvice } from "./advice.ts";
import { CallError, NO_SANDBOX, NoSandboxError, WRONG_PARAMS } from "./errors.ts";
import { type Header, isObject, ProtocolError } from "./frames.ts";
import { type Hello, readHello } from "./hello.ts";
import type { Session } from "./program.ts";
import { oneLine } from "./words.ts";

export type State = "off" | "starting" | "ready" | "restarting" | "dead";

export interface Denial {
  readonly time: string;
  readonly host: string;
  readonly port: number | undefined;
  readonly message: string;
  readonly entry: string | undefined;
  /** What the user has said to close it, where that is why. */
  readonly closed: string | undefined;
}

/** What an entry opens, or would, in aisb's words; `note` is what is so of the rest of it. */
export interface Opening {
  readonly opened: readonly string[];
  readonly note: string | undefined;
}

export interface SandboxEvents {
  onState(state: State, reason: string): void;
  onDenied(denial: Denial): void;
  onAllowed(destination: string): void;
  onGateLost(message: string): void;
  /** In the place of a sandbox that died there is another one: what of the user's /sandbox-allow holds there too, and what not. */
  onAllowedAgain(again: readonly string[], lost: readonly string[]): void;
}

const MOST_DENIALS = 20;

export class Sandbox {
  readonly #start: () => Session;
  readonly #events: SandboxEvents;
  #session: Session | undefined;
  #client: Client | undefined;
  #state: State = "off";
  #reason = "it was not started";
  #changed: (() => void)[] = [];
  /** How often it changed. */
  #news = 0;
  #hello: Hello | undefined;
  #restarted = false;
  #wantsAllowed = false;
  #hasGate = true;
  #isEnding = false;
  readonly #denials: Denial[] = [];
  readonly #added = new Set<string>();
  readonly #closed = new Set<string>();
  /** What the user has agreed to in this session. */
  readonly #agreed = new Set<string>();
  /** What aisb says would hold as well in another run: the user has not taken it back elsewhere since. */
  #lasting: ReadonlySet<string> = new Set();

  /** `start` makes a process; it is called again once, where the first one ends unasked. */
  constructor(start: () => Session, events: SandboxEvents) {
    this.#start = start;
    this.#events = events;
  }

  get state(): State {
    return this.#state;
  }

  /** Whether calls wait for it. */
  get isComing(): boolean {
    return this.#state === "starting" || this.#state === "restarting";
  }

  /** Why the state is what it is, for a person. */
  get reason(): string {
    return this.#reason;
  }

  get hello(): Hello | undefined {
    return this.#hello;
  }

  /** Whether what the sandbox may reach can be reached: false once its gate has ended. */
  get hasGate(): boolean {
    return this.#hasGate;
  }

  /** What was allowed since it began. */
  get added(): ReadonlySet<string> {
    return this.#added;
  }

  /** The entries of its policy that are still open. */
  get open(): readonly string[] {
    return (this.#hello?.allow ?? []).filter((entry) => !this.#closed.has(entry));
  }

  get denials(): readonly Denial[] {
    return this.#denials;
  }

  /** What aisb said on stderr. */
  get said(): readonly string[] {
    return this.#session?.said ?? [];
  }

  /** Starts, in the background. Also asks to be told of what is let through, where that is wanted. */
  begin(wantsAllowed: boolean): void {
    this.#wantsAllowed = wantsAllowed;
    this.#isEnding = false;
    this.#agreed.clear();
    this.#lasting = new Set();
    this.#set("starting", "it is being made");
    this.#launch();
  }

  /** There will be none: a reason that was found before anything was started. */
  refuse(reason: string): void {
    this.#set("dead", reason);
  }

  /** Ends everything. From now on nothing can be executed; what was denied last is still told. */
  async end(): Promise<void> {
    const session = this.#session;
    this.#isEnding = true;
    this.#client = undefined;
    this.#set("off", "the session has ended");
    await session?.stop();
    if (this.#session === session) this.#session = undefined;
  }

  /** What aisb said of the sandbox, once it is there. Throws a NoSandboxError. */
  async ready(signal?: AbortSignal): Promise<Hello> {
    while (this.isComing) await this.#change(signal);
    if (this.#state !== "ready" || !this.#hello) throw new NoSandboxError(this.#reason);
    return this.#hello;
  }

  /** What the entry would open. Throws a CallError for what is none that it could be allowed. Nothing is done. */
  async check(entry: string): Promise<Opening> {
    try {
      return openingOf(entry, (await this.call("allow", { entry, check: true })).result);
    } catch (error) {
      // An older aisb has no such question: it refuses when it is to do it.
      if (!(error instanceof CallError && error.rpcCode === WRONG_PARAMS)) throw error;
      return openingOf(entry, {});
    }
  }

  /** Lets it reach one more destination, to which the user has agreed; what was opened. */
  async allow(entry: string): Promise<Opening> {
    const opening = openingOf(entry, (await this.call("allow", { entry })).result);
    // One that was closed is counted with those that were added.
    for (const one of opening.opened) {
      this.#added.add(one);
      this.#agreed.add(one);
    }
    return opening;
  }

  /** One request to the sandbox, as soon as there is one. Never carried out anywhere else. */
  async call(method: string, params: Header, options: CallOptions = {}): Promise<Answer> {
    await this.ready(options.signal);
    const news = this.#news;
    try {
      return await this.#callOnce(method, params, options);
    } catch (error) {
      // Nothing was done: it came between the end of a container and the news of it, which may take a while.
      const isBetween = error instanceof CallError && error.rpcCode === NO_SANDBOX && !options.upload;
      if (!isBetween) throw error;
      if (this.#news === news) await this.#change(options.signal);
      await this.ready(options.signal);
      return this.#callOnce(method, params, options);
    }
  }

  async #callOnce(method: string, params: Header, options: CallOptions): Promise<Answer> {
    if (!this.#client) throw new NoSandboxError(this.#reason);
    return this.#client.call(method, params, options);
  }

  #launch(): void {
    let session: Session;
    try {
      session = this.#start();
    } catch (error) {
      this.refuse(error instanceof Error ? error.message : String(error));
      return;
    }
    this.#session = session;
    const mine = () => this.#session === session;
    const client = new Client(
      session.input,
      session.output,
      (method, params) => {
        if (mine()) this.#noticed(method, params);
      },
      (end) => {
        if (mine()) void this.#lost(session, end);
      },
    );
    this.#client = client;
    // A program that cannot be started closes no stream.
    void session.ended.then((how) => {
      if (mine()) void this.#lost(session, { reason: how, isViolation: false });
    });
  }

  #noticed(method: string, params: Readonly<Record<string, unknown>>): void {
    if (this.#isEnding) {
      if (method === "denied" && this.#hello) this.#denied(params);
      return;
    }
    if (method === "hello") {
      this.#arrive(params, "");
      if (this.#wantsAllowed) void this.#watch();
      return;
    }
    if (method === "failed") {
      this.#set("dead", withAdvice(String(params["message"]), String(params["hint"] ?? "")));
      return;
    }
    if (!this.#hello) throw new ProtocolError(`${oneLine(method, 40)} before hello`);
    if (method === "sandbox") this.#told(params);
    else if (method === "denied") this.#denied(params);
    else if (method === "allowed") this.#events.onAllowed(destination(params));
    else if (method === "opened") this.#learn(params);
    else if (method === "gate" && params["state"] === "ended") this.#gateLost(params);
  }

  #gateLost(params: Readonly<Record<string, unknown>>): void {
    this.#hasGate = false;
    this.#events.onGateLost(oneLine(String(params["message"] ?? "the gate has ended")));
  }

  #learn(params: Readonly<Record<string, unknown>>): void {
    const entries = params["entries"];
    const now = new Set(Array.isArray(entries) ? entries.map((one) => oneLine(String(one))) : []);
    for (const entry of this.#lasting) {
      // The user has said something else of it since, by aisb itself.
      if (!now.has(entry)) this.#agreed.delete(entry);
    }
    this.#lasting = now;
  }

  /** There is one. What the user has agreed to in one that died is allowed again before anything runs in it. */
  #arrive(params: Readonly<Record<string, unknown>>, reason: string): void {
    const [agreed, lasting] = [[...this.#agreed], this.#lasting];
    this.#agreed.clear();
    this.#lasting = new Set();
    this.#welcome(params);
    if (agreed.length === 0) this.#set("ready", reason);
    else void this.#allowAgain(agreed, lasting, reason);
  }

  async #allowAgain(agreed: readonly string[], lasting: ReadonlySet<string>, reason: string): Promise<void> {
    const [client, news] = [this.#client, this.#news];
    const again: string[] = [];
    for (const entry of agreed.filter((one) => lasting.has(one))) {
      const done = await client?.call("allow", { entry }).catch(() => undefined);
      if (done) again.push(entry);
    }
    // It has died meanwhile, or the session is over.
    if (this.#client !== client || this.#news !== news) return;
    for (const entry of again) {
      this.#added.add(entry);
      this.#agreed.add(entry);
    }
    this.#set("ready", reason);
    this.#events.onAllowedAgain(again, agreed.filter((one) => !again.includes(one)));
  }

  #welcome(params: Readonly<Record<string, unknown>>): void {
    this.#hello = readHello(params);
    this.#hasGate = true;
    this.#added.clear();
    this.#closed.clear();
  }

  #told(params: Readonly<Record<string, unknown>>): void {
    const state = params["state"];
    if (state !== "restarting" && state !== "ready" && state !== "dead") return;
    if (state === "restarting") this.#restarted = true;
    // The new one is a run of its own.
    const reason = oneLine(String(params["reason"] ?? ""));
    if (this.#state === "dead") return;
    if (state === "ready" && isObject(params["hello"])) this.#arrive(params["hello"], reason);
    else this.#set(state, reason);
  }

  #denied(params: Readonly<Record<string, unknown>>): void {
    const denial: Denial = {
      time: oneLine(String(params["time"] ?? ""), 40),
      host: oneLine(String(params["host"] ?? ""), 260),
      // 0: a name that was looked up.
      port: typeof params["port"] === "number" && params["port"] > 0 ? params["port"] : undefined,
      message: oneLine(String(params["message"] ?? "denied")),
      entry: typeof params["entry"] === "string" ? oneLine(params["entry"]) : undefined,
      closed: typeof params["closed"] === "string" ? oneLine(params["closed"]) : undefined,
    };
    if (denial.closed !== undefined) this.#close(denial.closed);
    this.#denials.push(denial);
    this.#denials.splice(0, this.#denials.length - MOST_DENIALS);
    this.#events.onDenied(denial);
  }

  #close(entry: string): void {
    // What is written in another way than it was allowed is open in the count, and closed all the same.
    this.#added.delete(entry);
    this.#agreed.delete(entry);
    this.#closed.add(entry);
  }

  async #watch(): Promise<void> {
    try {
      await this.#client?.call("watch", { allowed: true });
    } catch {
      // An older aisb: what it refuses is told all the same.
    }
  }

  /** The process has ended, or what it sent was not of the session. */
  async #lost(session: Session, { reason, isViolation }: End): Promise<void> {
    if (this.#isEnding) return;
    this.#client = undefined;
    if (this.#state === "dead") return;
    const wasReady = this.#state === "ready";
    this.#set("restarting", reason);
    await session.stop();
    if (this.#session !== session) return;
    if (wasReady && !this.#restarted) {
      this.#restarted = true;
      this.#launch();
      return;
    }
    const words = isViolation || wasReady ? undefined : lastWords(session.said);
    this.#set("dead", words ?? `aisb: ${reason} (${await session.ended})`);
  }

  #set(state: State, reason: string): void {
    const isNew = state !== this.#state;
    this.#news++;
    this.#state = state;
    this.#reason = reason;
    for (const changed of this.#changed.splice(0)) changed();
    if (isNew) this.#events.onState(state, reason);
  }

  async #change(signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => reject(new CallError(-32003, "cancelled"));
      if (signal?.aborted) return onAbort();
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#changed.push(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
    });
  }
}

/** An older aisb says what is in force, and not what of it opens something. */
function openingOf(entry: string, result: Readonly<Record<string, unknown>>): Opening {
  const opened = result["opened"] ?? result["entries"];
  return {
    opened: Array.isArray(opened) ? opened.map((one) => oneLine(String(one))) : [entry],
    note: typeof result["note"] === "string" ? advice(result["note"]) : undefined,
  };
}

/** aisb's error is its last line, or the one before the lines of the hint that belongs to it. */
function lastWords(said: readonly string[]): string | undefined {
  const own = said.filter((line) => line.startsWith("aisb: ")).map((line) => line.slice("aisb: ".length));
  const at = own.findLastIndex((line) => !line.startsWith("  "));
  return at < 0 ? undefined : withAdvice(own[at] ?? "", own.slice(at + 1).map((line) => line.trim()).join("\n"));
}

function destination(params: Readonly<Record<string, unknown>>): string {
  const port = typeof params["port"] === "number" ? `:${params["port"]}` : "";
  const request = [params["method"], params["path"]].filter((part) => typeof part === "string" && part !== "").join(" ");
  return oneLine(`${String(params["host"] ?? "")}${port} ${request}`.trimEnd());
}
