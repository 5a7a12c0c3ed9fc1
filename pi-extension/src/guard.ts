/**
 * Blocks a tool of pi's name that is not ours: another extension that registered it first would run it on this machine.
 */

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export function guardTools(pi: ExtensionAPI, marks: ReadonlyMap<string, unknown>, isInside: () => boolean): void {
  pi.on("tool_call", ({ toolName }) => {
    if (!isInside() || !marks.has(toolName) || isOurs(pi, marks, toolName)) return undefined;
    return { block: true, reason: `${toolName} is another extension's and would run outside of the sandbox: blocked.` };
  });
}

/** The tools of pi's names that another extension has taken. */
export function takenTools(pi: ExtensionAPI, marks: ReadonlyMap<string, unknown>): string[] {
  return [...marks.keys()].filter((name) => !isOurs(pi, marks, name));
}

/** True as well where there is no such tool: --tools and --exclude-tools leave some out. */
function isOurs(pi: ExtensionAPI, marks: ReadonlyMap<string, unknown>, name: string): boolean {
  const tool = pi.getAllTools().find((one) => one.name === name);
  return tool === undefined || tool.parameters === marks.get(name);
}
