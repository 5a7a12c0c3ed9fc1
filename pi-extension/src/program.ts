/** The program `aisb`, and the process of one session. */

import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { delimiter, isAbsolute, join, sep } from "node:path";
import type { Readable, Writable } from "node:stream";

import { oneLine } from "./words.ts";

const NAME = "aisb";
const MOST_LINES = 40;
const LONGEST_LINE = 4096;
/** After the end of its input aisb takes everything down; this long, then it is told once more, then not asked. */
const END_MILLISECONDS = 8_000;
const KILL_MILLISECONDS = 4_000;

export interface Session {
  readonly input: Readable;
  readonly output: Writable;
  /** What aisb has said on stderr so far: its last lines. */
  readonly said: readonly string[];
  /** The exit code, or how it ended otherwise. Never rejects. */
  readonly ended: Promise<string>;
  /** Ends the session and everything in it. Resolves when the process is gone. */
  stop(): Promise<void>;
}

/**
 * The absolute path of `aisb`, or undefined. Directories of PATH that are relative or lie in the project are passed over:
 * what is there is the agent's to write.
 */
export function findProgram(path: string, project: string): string | undefined {
  const inside = realpathSync(project) + sep;
  for (const directory of path.split(delimiter)) {
    if (!isAbsolute(directory)) continue;
    try {
      const file = realpathSync(join(directory, NAME));
      if (`${realpathSync(directory)}${sep}`.startsWith(inside) || file.startsWith(inside)) continue;
      accessSync(file, constants.X_OK);
      if (statSync(file).isFile()) return join(directory, NAME);
    } catch {
      // Not there, or not a program.
    }
  }
  return undefined;
}

/** Starts `aisb serve` in the project. What it says on stderr is kept; each line is for `heard` as well. */
export function startSession(
  program: string,
  flags: readonly string[],
  project: string,
  heard: (line: string) => void = () => undefined,
): Session {
  const child = spawn(program, ["serve", ...flags], {
    cwd: project,
    stdio: ["pipe", "pipe", "pipe"],
    // A group of its own: what the terminal sends to pi's (Ctrl-C, Ctrl-Z) is pi's to handle.
    detached: true,
  });
  const said: string[] = [];
  keepLines(child.stderr, said, heard);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => resolve(signal ? `ended by ${signal}` : `exit code ${code}`));
  });
  return { input: child.stdout, output: child.stdin, said, ended, stop: () => stop(child, ended) };
}

function keepLines(stream: Readable, lines: string[], heard: (line: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = (parts.pop() ?? "").slice(-LONGEST_LINE);
    for (const part of parts) heard(oneLine(part, LONGEST_LINE));
    lines.push(...parts.map((line) => oneLine(line)).filter((line) => line !== ""));
    lines.splice(0, lines.length - MOST_LINES);
  });
}

async function stop(child: ChildProcess, ended: Promise<string>): Promise<void> {
  child.stdin?.end();
  if (await within(ended, END_MILLISECONDS)) return;
  child.kill("SIGTERM");
  if (await within(ended, KILL_MILLISECONDS)) return;
  child.kill("SIGKILL");
  await within(ended, KILL_MILLISECONDS);
}

async function within(ended: Promise<string>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), milliseconds);
  });
  const done = await Promise.race([ended.then(() => true as const), late]);
  clearTimeout(timer);
  return done;
}
