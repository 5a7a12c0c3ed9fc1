/** aisb's advice for somebody who uses pi: in pi's flags, without those that pi has not. */

import { oneLine } from "./words.ts";

const OF_PI: Readonly<Record<string, string>> = {
  "--allow": "--sandbox-allow",
  "--policy": "--egress-policy",
  "--base-image": "--sandbox-image",
};
const TRANSLATED = /(?<![\w-])--(?:allow|policy|base-image)(?![\w-])/g;
const FLAG = /(?<![\w-])--[a-z][\w-]*/g;
// pi works in the project, and so do such commands.
const PROJECT = / --project(?: |=)(?:'[^']*'|\S+)/g;
// Something for a shell, with flags of its own.
const COMMAND = /\b(?:aisb [a-z]|sudo |git )/;
const ALTERNATIVE = /\n(?:or, )?|; (?:or,? )?|, or /;

/** What of it can be done from here, on one line; "" where nothing can. */
export function advice(hint: string): string {
  const steps = hint.split(ALTERNATIVE).map((step) => inPisWords(step.trim()));
  return oneLine(steps.filter((step) => step !== "").join("; "));
}

/** The message, and the advice where there is any. */
export function withAdvice(message: string, hint: string): string {
  const words = advice(hint);
  return oneLine(words === "" ? message : `${message} (${words})`);
}

function inPisWords(step: string): string {
  if (COMMAND.test(step)) return step.replace(PROJECT, "");
  const flags = step.match(FLAG) ?? [];
  if (flags.some((flag) => OF_PI[flag] === undefined)) return "";
  return step.replace(/\baisb (?=--)/g, "pi ").replace(TRANSLATED, (flag) => OF_PI[flag] ?? flag);
}
