/** Every tool of pi's own that executes or touches files: all of them are overridden. */

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

import { bashTool } from "./bash.ts";
import { editTool } from "./edit.ts";
import { findTool } from "./find.ts";
import { grepTool } from "./grep.ts";
import { lsTool } from "./ls.ts";
import type { Kit } from "./override.ts";
import { powershellTool } from "./powershell.ts";
import { readTool } from "./read.ts";
import { writeTool } from "./write.ts";

/** Registers them, and gives the schema of each by its name: the mark by which it is known. */
export function registerTools(pi: ExtensionAPI, kit: Kit): ReadonlyMap<string, unknown> {
  const marks = new Map<string, unknown>();
  // One call each: their parameters are of different types.
  const mark = (tool: { name: string; parameters: unknown }) => marks.set(tool.name, tool.parameters);
  const tools = {
    read: readTool(kit),
    bash: bashTool(kit),
    powershell: powershellTool(kit),
    edit: editTool(kit),
    write: writeTool(kit),
    grep: grepTool(kit),
    find: findTool(kit),
    ls: lsTool(kit),
  };
  pi.registerTool(tools.read);
  pi.registerTool(tools.bash);
  pi.registerTool(tools.powershell);
  pi.registerTool(tools.edit);
  pi.registerTool(tools.write);
  pi.registerTool(tools.grep);
  pi.registerTool(tools.find);
  pi.registerTool(tools.ls);
  Object.values(tools).forEach(mark);
  return marks;
}
