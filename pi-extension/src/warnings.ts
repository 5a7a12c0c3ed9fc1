/**
 * What aisb warns of on stderr: what became of files that this machine runs without asking, such as git's hooks.
 *
 * The most of it comes when a session ends, and with it pi's interface. It is said when the next one begins, or on stderr
 * when pi ends.
 */

import { writeSync } from "node:fs";

import type { Voice } from "./voice.ts";

const OF_AISB = "aisb: ";
const LATE = Symbol.for("ai-sandbox.warnings");
// Of files alone: the rest is said of the sandbox itself (status.ts).
const WARNING = /^changed, and may be run |^warning: .*(this machine|, which is protected, |looked through|sockets in the project)/;
// Told while a session goes on; aisb names a path first.
const EVENT = /^\/.* (has appeared(; to undo it: rm .*)?|has changed|is gone|was replaced while it is covered|could not be covered again inside)$/;

/** The warning in a line of aisb's, without aisb's name; undefined where it is none. */
export function warningIn(line: string): string | undefined {
  const words = line.startsWith(OF_AISB) ? line.slice(OF_AISB.length) : "";
  return WARNING.test(words) || EVENT.test(words) ? words : undefined;
}

/** Of this process: for the next session pi loads its extensions anew. */
function ofProcess(): string[] {
  const all = globalThis as { [LATE]?: string[] };
  return (all[LATE] ??= []);
}

export class Warnings {
  readonly #voice: Voice;
  readonly #late: string[];
  #isEnding = false;

  constructor(voice: Voice, late = ofProcess()) {
    this.#voice = voice;
    this.#late = late;
  }

  /** A session begins: what the one before it has left is said first. */
  begin(): void {
    this.#isEnding = false;
    for (const words of this.#late.splice(0)) this.#voice.say(words, "warning");
  }

  /** From now on nobody may be there to hear it. */
  end(): void {
    this.#isEnding = true;
  }

  take(line: string): void {
    const words = warningIn(line);
    if (words === undefined) return;
    if (this.#isEnding) this.#late.push(words);
    else this.#voice.say(words, "warning");
  }

  /** What has not been said is written to stderr: the last thing that pi does. */
  flush(write: (text: string) => void = (text) => writeSync(2, text)): void {
    try {
      for (const words of this.#late.splice(0)) write(`${OF_AISB}${words}\n`);
    } catch {
      // stderr is closed: there is nobody.
    }
  }
}
