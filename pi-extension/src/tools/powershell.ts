/** `powershell`: there is none in the sandbox, and this machine's is not for a model to use. */

import { createPowerShellToolDefinition } from "@earendil-works/pi-coding-agent";

import { type Kit, override } from "./override.ts";

export function powershellTool(kit: Kit) {
  return override(kit, createPowerShellToolDefinition(kit.cwd), {
    here: (cwd) => createPowerShellToolDefinition(cwd),
    inside: () => Promise.reject(new Error("PowerShell would run on the user's machine, outside of the sandbox. Use bash.")),
  });
}
