/** The flags of pi's command line that are ours, and what they come to for `aisb serve`. */

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export interface Wanted {
  readonly noSandbox: boolean;
  readonly logsAllowed: boolean;
  /** For `aisb serve`. */
  readonly flags: readonly string[];
}

/** A flag has a value that it cannot have. */
export class FlagError extends Error {
  override name = "FlagError";
}

export function registerFlags(pi: ExtensionAPI): void {
  pi.registerFlag("no-sandbox", { type: "boolean", description: "run the tools on this machine, without any sandbox" });
  pi.registerFlag("sandbox-image", { type: "string", description: "REF: the image that the sandbox is built on" });
  pi.registerFlag("egress-policy", { type: "string", description: "FILE: what the sandbox may reach (aisb's --policy)" });
  pi.registerFlag("sandbox-allow", {
    type: "string",
    description: "ENTRY[,ENTRY...]: hosts that the sandbox may reach (aisb's --allow)",
  });
  pi.registerFlag("sandbox-log", {
    type: "string",
    description: "denied (default) or all: which of the sandbox's requests are shown",
  });
}

/** Throws a FlagError. */
export function readFlags(flag: (name: string) => boolean | string | undefined): Wanted {
  const text = (name: string) => {
    const value = flag(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw new FlagError(`--${name} needs a value`);
    return value;
  };
  const log = text("sandbox-log") ?? "denied";
  if (log !== "all" && log !== "denied") throw new FlagError(`--sandbox-log is all or denied, not ${log}`);
  const pairs = { "--base-image": text("sandbox-image"), "--policy": text("egress-policy"), "--allow": text("sandbox-allow") };
  const flags = Object.entries(pairs).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  return { noSandbox: flag("no-sandbox") === true, logsAllowed: log === "all", flags };
}
