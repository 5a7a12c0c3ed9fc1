/** `read`: the file's bytes come from the sandbox; pi cuts text to size and prepares images as it always does. */

import { createReadToolDefinition, type ReadOperations } from "@earendil-works/pi-coding-agent";

import type { Files } from "../files.ts";
import { imageType, SNIFFED_BYTES } from "../image-type.ts";
import type { Veil } from "../paths.ts";
import { executeCovered } from "./covered.ts";
import { type Kit, override } from "./override.ts";

export function readTool(kit: Kit) {
  const definition = (cwd: string, operations?: ReadOperations) => {
    const autoResizeImages = kit.settings().images?.autoResize ?? true;
    return createReadToolDefinition(cwd, { autoResizeImages, ...(operations ? { operations } : {}) });
  };
  // pi has no settings yet while extensions are loaded.
  return override(kit, createReadToolDefinition(kit.cwd), {
    here: (cwd) => definition(cwd),
    inside: (call) =>
      executeCovered(kit.sandbox, call, (veil) => (params) => {
        const tool = definition(call.ctx.cwd, readOperations(kit.files, veil, call.signal));
        return tool.execute(call.id, params, call.signal, call.onUpdate, call.ctx);
      }),
  });
}

function readOperations(files: Files, veil: Veil, signal: AbortSignal | undefined): ReadOperations {
  return {
    access: (path) => files.check(veil.uncover(path), "r", signal),
    readFile: (path) => files.read(veil.uncover(path), signal),
    createReadStream: (path) => files.pieces(veil.uncover(path), signal),
    detectImageMimeType: async (path) => imageType(await files.head(veil.uncover(path), SNIFFED_BYTES, signal)),
  };
}
