/**
 * `grep`: the image's rg looks, inside, and this words its result as pi's grep does.
 *
 * pi's own cannot be used: it runs this machine's rg, whatever operations it is given.
 */

import {
  type AgentToolResult,
  createGrepToolDefinition,
  DEFAULT_MAX_BYTES,
  formatSize,
  type GrepToolDetails,
  type GrepToolInput,
  truncateHead,
  truncateLine,
} from "@earendil-works/pi-coding-agent";
import { posix } from "node:path";

import { runCommand } from "../commands.ts";
import { CallError } from "../errors.ts";
import { isObject } from "../frames.ts";
import { insidePath } from "../paths.ts";
import type { Call } from "./covered.ts";
import { needSuccess, Output } from "./output.ts";
import { type Kit, override } from "./override.ts";

const DEFAULT_LIMIT = 100;
const LONGEST_LINE = 500;
/** One event of rg's: a line of a file that has no line ends can be as long as the file. */
const MOST_EVENT_BYTES = 8 * 1_048_576;

export function grepTool(kit: Kit) {
  return override(kit, createGrepToolDefinition(kit.cwd), {
    here: (cwd) => createGrepToolDefinition(cwd),
    inside: (call) => grep(kit, call),
  });
}

type GrepCall = Call<GrepToolInput, GrepToolDetails | undefined>;

async function grep(kit: Kit, { params, signal, ctx }: GrepCall): Promise<AgentToolResult<GrepToolDetails | undefined>> {
  const { home } = await kit.sandbox.ready(signal);
  const place = insidePath(params.path || ".", ctx.cwd, home);
  const isDirectory = await lookedUp(kit, place);
  const matches = new Matches(params, isDirectory);
  const output = new Output();
  const enough = new AbortController();
  const lines = new Lines((line) => {
    matches.take(line);
    if (matches.isDone) enough.abort();
  });
  const either = signal ? AbortSignal.any([signal, enough.signal]) : enough.signal;
  const options = { cwd: isDirectory ? place : ctx.cwd, onStdout: (bytes: Buffer) => lines.push(bytes), onStderr: output.sinks.onStderr };
  try {
    const command = ["rg", ...rgArguments(params, isDirectory ? "." : place)];
    needSuccess("rg", await runCommand(kit.sandbox, command, { ...options, signal: either }), output, [0, 1]);
  } catch (error) {
    if (signal?.aborted) throw new Error("Operation aborted");
    // With enough matches it is ended, and what else it says is of no interest.
    if (!enough.signal.aborted) throw error;
  }
  return matches.result();
}

async function lookedUp(kit: Kit, place: string): Promise<boolean> {
  try {
    return await kit.files.isDirectory(place);
  } catch (error) {
    if (error instanceof CallError && error.code) throw new Error(`Path not found: ${place}`);
    throw error;
  }
}

/** What pi's own grep asks of rg. */
export function rgArguments(params: GrepToolInput, place: string): string[] {
  const args = ["--no-config", "--json", "--line-number", "--color=never", "--hidden"];
  if (params.ignoreCase) args.push("--ignore-case");
  if (params.literal) args.push("--fixed-strings");
  // rg knows no leading "./" in a glob; "!" before it negates.
  if (params.glob) args.push("--glob", params.glob.replace(/^(!?)(?:\.\/)+/, "$1"));
  const context = contextLines(params);
  if (context > 0) args.push("--context", String(context));
  return [...args, "--", params.pattern, place];
}

function contextLines({ context }: GrepToolInput): number {
  return context && context > 0 ? Math.min(Math.floor(context), 1_000_000) : 0;
}

/** Cuts bytes into lines; of a line that is longer than any event has to be, nothing is kept. */
class Lines {
  #rest = Buffer.alloc(0);
  readonly #take: (line: string) => void;

  constructor(take: (line: string) => void) {
    this.#take = take;
  }

  push(bytes: Buffer): void {
    let from = 0;
    for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, from)) {
      const line = Buffer.concat([this.#rest, bytes.subarray(from, end)]);
      this.#rest = Buffer.alloc(0);
      from = end + 1;
      if (line.length <= MOST_EVENT_BYTES) this.#take(line.toString("utf8"));
    }
    if (this.#rest.length <= MOST_EVENT_BYTES) this.#rest = Buffer.concat([this.#rest, bytes.subarray(from)]);
  }
}

/** Lines found, up to the limit, as the model sees them. */
export class Matches {
  readonly #limit: number;
  readonly #context: number;
  readonly #isDirectory: boolean;
  readonly #lines: string[] = [];
  #bytes = 0;
  #total = 0;
  #count = 0;
  #isCut = false;
  #isLimited = false;
  /** Where the lines after the last match that is shown end. */
  #tail: { file: string; until: number } | undefined;
  isDone = false;

  constructor(params: GrepToolInput, isDirectory: boolean) {
    this.#limit = Math.max(1, Math.floor(params.limit ?? DEFAULT_LIMIT));
    this.#context = contextLines(params);
    this.#isDirectory = isDirectory;
  }

  /** One line of `rg --json`. */
  take(text: string): void {
    const event = this.isDone ? undefined : readEvent(text);
    if (event === undefined) return;
    const { isMatch, file, number, line } = event;
    if (this.#tail === undefined) {
      this.#show(file, number, line, isMatch);
      if (!isMatch) return;
      this.#count++;
      if (this.#count >= this.#limit) this.#tail = { file, until: number + this.#context };
      return;
    }
    const isInTail = file === this.#tail.file && number <= this.#tail.until;
    if (isInTail) this.#show(file, number, line, false);
    // Only one more match shows that the limit left something out.
    if (isMatch) this.#isLimited = true;
    this.isDone = this.#isLimited && !(isInTail && number < this.#tail.until);
  }

  result(): AgentToolResult<GrepToolDetails | undefined> {
    if (this.#count === 0) return { content: [{ type: "text", text: "No matches found" }], details: undefined };
    const cut = truncateHead(this.#lines.join("\n"), { maxLines: Number.MAX_SAFE_INTEGER });
    const truncation = { ...cut, totalLines: this.#total, totalBytes: this.#bytes - 1 };
    const details: GrepToolDetails = {};
    const notes: string[] = [];
    if (this.#isLimited) {
      details.matchLimitReached = this.#limit;
      notes.push(`${this.#limit} matches limit reached. Use limit=${this.#limit * 2} for more, or refine pattern`);
    }
    if (truncation.truncated) {
      details.truncation = truncation;
      notes.push(`${formatSize(DEFAULT_MAX_BYTES)} limit reached`);
    }
    if (this.#isCut) {
      details.linesTruncated = true;
      notes.push(`Some lines truncated to ${LONGEST_LINE} chars. Use read tool to see full lines`);
    }
    const text = notes.length > 0 ? `${truncation.content}\n\n[${notes.join(". ")}]` : truncation.content;
    return { content: [{ type: "text", text }], details: notes.length > 0 ? details : undefined };
  }

  #show(file: string, number: number, line: string, isMatch: boolean): void {
    const { text, wasTruncated } = truncateLine(line.replace(/\r?\n?$/, ""));
    this.#isCut ||= wasTruncated;
    const name = this.#isDirectory ? posix.normalize(file) : posix.basename(file);
    const shown = isMatch ? `${name}:${number}: ${text}` : `${name}-${number}- ${text}`;
    // Beyond what is shown only the sizes matter.
    if (this.#bytes <= DEFAULT_MAX_BYTES) this.#lines.push(shown);
    this.#bytes += Buffer.byteLength(shown) + 1;
    this.#total++;
  }
}

interface Event {
  readonly isMatch: boolean;
  readonly file: string;
  readonly number: number;
  readonly line: string;
}

function readEvent(text: string): Event | undefined {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(event) || (event["type"] !== "match" && event["type"] !== "context")) return undefined;
  const data = isObject(event["data"]) ? event["data"] : {};
  const [file, number, line] = [readText(data["path"]), data["line_number"], readText(data["lines"])];
  if (file === "" || typeof number !== "number") return undefined;
  return { isMatch: event["type"] === "match", file, number, line };
}

/** rg gives what is no UTF-8 in base64. */
function readText(value: unknown): string {
  if (!isObject(value)) return "";
  if (typeof value["text"] === "string") return value["text"];
  return typeof value["bytes"] === "string" ? Buffer.from(value["bytes"], "base64").toString("utf8") : "";
}
