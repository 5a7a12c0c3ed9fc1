/** `write`: directories are made and the file is replaced in the sandbox. */

import { createWriteToolDefinition, type WriteOperations } from "@earendil-works/pi-coding-agent";

import type { Files } from "../files.ts";
import type { Veil } from "../paths.ts";
import { executeCovered } from "./covered.ts";
import { type Kit, override } from "./override.ts";

export function writeTool(kit: Kit) {
  return override(kit, createWriteToolDefinition(kit.cwd), {
    here: (cwd) => createWriteToolDefinition(cwd),
    inside: (call) =>
      executeCovered(kit.sandbox, call, (veil) => (params) => {
        const tool = createWriteToolDefinition(call.ctx.cwd, { operations: writeOperations(kit.files, veil) });
        return tool.execute(call.id, params, call.signal, call.onUpdate, call.ctx);
      }),
  });
}

function writeOperations(files: Files, veil: Veil): WriteOperations {
  return {
    mkdir: (path) => files.makeDirectory(veil.uncover(path)),
    writeFile: (path, content) => files.write(veil.uncover(path), Buffer.from(content, "utf8")),
  };
}
