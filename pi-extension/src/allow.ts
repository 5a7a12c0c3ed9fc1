/** /sandbox-allow ENTRY: opens one more destination until the session ends, once the user has said yes. */

import type { ExtensionCommandContext } from "@earendil-works/pi-coding-agent";

import { CallError, NoSandboxError } from "./errors.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Voice } from "./voice.ts";
import { oneLine, shellWord } from "./words.ts";

/** Whether a sandbox that runs can be allowed that: names and addresses, no methods and paths, ports of the host or presets. */
export function isLive(entry: string): boolean {
  return !/\s|^@|^host:/.test(entry);
}

/** Asks, and allows. Never allows without an answer: where nobody can be asked, nothing is allowed. */
export async function allowEntry(sandbox: Sandbox, voice: Voice, written: string, ctx: ExtensionCommandContext): Promise<void> {
  const entry = written.trim();
  if (entry === "" || entry !== oneLine(entry)) {
    voice.answer("/sandbox-allow ENTRY, as aisb's --allow takes it: example.com, example.com:5432, 10.0.0.5:22", "warning");
    return;
  }
  if (!ctx.hasUI) {
    voice.answer("/sandbox-allow asks, and nobody can be asked here: use --sandbox-allow at the start", "error");
    return;
  }
  if (!isLive(entry)) {
    voice.answer(`${entry} takes a session of its own: start pi with --sandbox-allow ${shellWord(entry)}`, "warning");
    return;
  }
  const yes = await ctx.ui.confirm(`Let the sandbox reach ${entry}?`, "Until this session ends, for everything that runs in the sandbox.");
  if (!yes) {
    voice.answer(`${entry} was not allowed`, "info");
    return;
  }
  try {
    const entries = await sandbox.allow(entry);
    voice.answer(`allowed until this session ends: ${oneLine(entries.join(", "))}`, "info");
  } catch (error) {
    if (!(error instanceof CallError || error instanceof NoSandboxError)) throw error;
    const hint = error instanceof CallError && error.hint ? ` (${error.hint})` : "";
    voice.answer(`not allowed: ${oneLine(error.message + hint)}`, "error");
  }
}
