/** /sandbox-allow ENTRY: opens one more destination until the session ends, once the user has said yes. */

import type { ExtensionCommandContext } from "@earendil-works/pi-coding-agent";

import { withAdvice } from "./advice.ts";
import { CallError, NoSandboxError } from "./errors.ts";
import type { Hello } from "./hello.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Voice } from "./voice.ts";
import { oneLine, shellWord } from "./words.ts";

/** Whether a sandbox that runs can be allowed that: names and addresses, no methods and paths, ports of the host or presets. */
export function isLive(entry: string): boolean {
  return !/\s|^@|^host:/.test(entry);
}

/** Whether aisb can open that while the sandbox runs, as it proposes it: an address is open from the start, or not. */
export function isOpened(entry: string): boolean {
  return isLive(entry) && !/^(\[|\d+(\.\d+){3}(?![^:/]))/.test(entry);
}

/** Whether one of the entries, as aisb writes them, opens that name at that port; undefined: where it was looked up. */
export function isCovered(host: string, port: number | undefined, entries: Iterable<string>): boolean {
  return [...entries].flatMap((entry) => entry.split(",")).some((entry) => {
    const [, kind, name = "", own] = /^(exact:|below:)?([^:]+)(?::(\d+))?$/.exec(entry) ?? [];
    const ports = own === undefined ? [80, 443] : [Number(own)];
    const isOf = host === name ? kind !== "below:" : kind !== "exact:" && name !== "" && host.endsWith(`.${name}`);
    return isOf && (port === undefined || ports.includes(port));
  });
}

/** Asks, and allows. Never allows without an answer: where nobody can be asked, nothing is allowed. */
export async function allowEntry(sandbox: Sandbox, voice: Voice, written: string, ctx: ExtensionCommandContext): Promise<void> {
  const entry = written.trim();
  if (entry === "" || entry !== oneLine(entry)) {
    voice.answer("/sandbox-allow ENTRY, as aisb's --allow takes it: example.com, example.com:5432, 10.0.0.5:22", "warning");
    return;
  }
  if (!isLive(entry)) {
    voice.answer(`${entry} takes a session of its own: start pi with --sandbox-allow ${shellWord(entry)}`, "warning");
    return;
  }
  try {
    const hello = await sandbox.ready(ctx.signal);
    const { opened, note } = await sandbox.check(entry);
    const nothing = opened.length === 0 ? `not allowed: ${note ?? "this opens nothing"}` : undefined;
    const why = whyNot(sandbox, hello, entry) ?? nothing;
    if (why !== undefined) {
      voice.answer(why, "warning");
      return;
    }
    if (!ctx.hasUI) {
      const way = `use --sandbox-allow ${shellWord(entry)} at the start`;
      voice.answer(`/sandbox-allow asks, and nobody can be asked here: ${way}`, "error");
      return;
    }
    await askAndAllow(sandbox, voice, entry, ctx);
  } catch (error) {
    if (!(error instanceof CallError || error instanceof NoSandboxError)) throw error;
    const hint = error instanceof CallError ? (error.hint ?? "") : "";
    voice.answer(`not allowed: ${withAdvice(error.message, hint)}`, "error");
  }
}

/** Why nothing can be allowed in this session, whatever the answer were; undefined where it can. */
function whyNot(sandbox: Sandbox, hello: Hello, entry: string): string | undefined {
  const another = `it takes a new session: pi --sandbox-allow ${shellWord(entry)}`;
  if (hello.net === "full") return "this session has an open network: everything is reached already";
  if (hello.net === "none") return `this session has no network, which stays so: ${another}`;
  if (hello.gate === undefined) return `this session has no gate, so what it reaches stays as it is: ${another}`;
  return sandbox.hasGate ? undefined : `the gate of this session has ended: ${another}`;
}

async function askAndAllow(sandbox: Sandbox, voice: Voice, entry: string, ctx: ExtensionCommandContext): Promise<void> {
  const yes = await ctx.ui.confirm(`Let the sandbox reach ${entry}?`, "Until this session ends, for everything that runs in the sandbox.");
  if (!yes) {
    voice.answer(`${entry} was not allowed`, "info");
    return;
  }
  const { opened, note } = await sandbox.allow(entry);
  if (opened.length > 0) voice.answer(`allowed until this session ends: ${oneLine(opened.join(", "))}`, "info");
  if (note !== undefined) voice.answer(note, "warning");
}
