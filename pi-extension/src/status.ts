/** What is said of the sandbox: one line in the footer, and all of it in /sandbox-status. */

import { isCovered, isOpened } from "./allow.ts";
import type { Hello } from "./hello.ts";
import type { Denial, Sandbox } from "./sandbox.ts";
import { counted, duration, oneLine, shellWord } from "./words.ts";

const SHOWN_DENIALS = 5;
const SHOWN_ENTRIES = 20;

export const NO_SANDBOX_FOOTER = "NO SANDBOX: tools run on this machine";

/** The footer's line. */
export function footer(sandbox: Sandbox, denied: number): string {
  const { state, hello } = sandbox;
  if (state === "ready" && hello) {
    const refused = denied > 0 ? `, ${counted(denied, "request")} denied` : "";
    const reach = sandbox.hasGate ? network(hello, sandbox.open.length + sandbox.added.size) : "no network, its gate has ended";
    return `sandbox ${oneLine(hello.run, 8)}: ${reach}${refused}`;
  }
  if (state === "starting") return "sandbox: starting";
  if (state === "restarting") return "sandbox: died, starting again";
  return state === "dead" ? "NO SANDBOX: nothing can be run" : "sandbox: ended";
}

/** What the sandbox may reach, in a few words; `entries` by now. */
export function network(hello: Hello, entries = hello.allow.length): string {
  if (hello.net === "none") return "no network";
  if (hello.net === "full") return "open network";
  const rules = hello.rules.length > 0 ? [counted(hello.rules.length, "rule")] : [];
  const counts = entries > 0 || rules.length === 0 ? [entries === 1 ? "1 entry" : `${entries} entries`, ...rules] : rules;
  return `${counts.join(" and ")} allowed`;
}

/** What makes a new sandbox where there is none any more, to be put behind the reason; "" where nobody can type it. */
export function nextStep(sandbox: Sandbox, canAsk: boolean): string {
  if (!canAsk) return "";
  return sandbox.hello ? "; a new session has a new one: /new or /reload" : "; once that is mended: /reload";
}

/** The lines of /sandbox-status. `told` is aisb's answer to `status`, where there is one. */
export function statusLines(
  sandbox: Sandbox,
  told: Readonly<Record<string, unknown>> | undefined,
  outside: readonly string[],
  canAsk: boolean,
): string[] {
  const { state, hello, denials } = sandbox;
  const next = state === "dead" ? nextStep(sandbox, canAsk) : "";
  const lines = [`sandbox: ${state}${state === "ready" ? "" : ` (${sandbox.reason}${next})`}`];
  if (hello && state !== "dead" && state !== "off") lines.push(...helloLines(hello, sandbox.open, sandbox.added));
  if (state === "ready" && !sandbox.hasGate) lines.push("gate: ended; nothing outside is reached any more, a new session has a new gate");
  if (told) lines.push(...toldLines(told));
  if (denials.length > 0) lines.push("last denied:", ...denials.slice(-SHOWN_DENIALS).map((one) => `  ${denialLine(one, canAsk, sandbox.added)}`));
  if (state === "dead") lines.push(...sandbox.said.slice(-5).map((line) => `  ${line}`));
  lines.push("outside of the sandbox, on this machine:", ...outside.map((line) => `  ${line}`));
  lines.push("  pi itself: its models and keys, context files, skills, what you attach with @, and other extensions");
  return lines;
}

/**
 * One denial for a person, with what would allow it: in this session only where the person can be asked. `added` are
 * entries that were allowed since.
 */
export function denialLine({ message, host, port, entry }: Denial, canAsk: boolean, added: Iterable<string> = []): string {
  const where = port === undefined ? host : `${host}:${port}`;
  if (!entry) return `${where}: ${message}`;
  if (isOpened(entry) && isCovered(host, port, added)) return `${where}: ${message}; allowed since`;
  const way = canAsk && isOpened(entry) ? `/sandbox-allow ${entry}` : `--sandbox-allow ${shellWord(entry)}, for a new session`;
  return `${where}: ${message}; to allow it: ${way}`;
}

function helloLines(hello: Hello, open: readonly string[], added: ReadonlySet<string>): string[] {
  const all = [...open, ...hello.rules, ...[...added].map((entry) => `${entry} (until this session ends)`)];
  const entries = all.slice(0, SHOWN_ENTRIES).map((entry) => oneLine(entry, 200));
  const more = all.length > SHOWN_ENTRIES ? [`and ${all.length - SHOWN_ENTRIES} more`] : [];
  return [
    `image: ${oneLine(hello.image)}`,
    `run: ${oneLine(hello.run)} (aisb logs ${oneLine(hello.run, 8)}), user ${oneLine(hello.user, 40)}, home ${oneLine(hello.home)}`,
    "mounts:",
    ...hello.mounts.map(({ target, source, readOnly }) => `  ${oneLine(target === source ? target : `${source} at ${target}`)}${readOnly ? " (read-only)" : ""}`),
    `network: ${network(hello, open.length + added.size)}`,
    ...[...entries, ...more].map((entry) => `  ${entry}`),
  ];
}

function toldLines(told: Readonly<Record<string, unknown>>): string[] {
  const number = (name: string) => (typeof told[name] === "number" ? told[name] : 0);
  return [
    `up for ${duration(number("uptimeMs"))}, started again ${number("restarts") === 1 ? "once" : `${number("restarts")} times`}`,
    `requests: ${number("allowed")} allowed, ${number("denied")} denied`,
  ];
}
