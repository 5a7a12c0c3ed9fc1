/** `edit`: pi finds what to replace in a text that came from the sandbox, and the result goes back there. */

import { createEditToolDefinition, type EditOperations } from "@earendil-works/pi-coding-agent";

import type { Files } from "../files.ts";
import type { Veil } from "../paths.ts";
import { harmless } from "../words.ts";
import { executeCovered } from "./covered.ts";
import { type Kit, override } from "./override.ts";

export function editTool(kit: Kit) {
  const own = createEditToolDefinition(kit.cwd);
  const tool = override(kit, own, {
    here: (cwd) => createEditToolDefinition(cwd),
    inside: (call) =>
      executeCovered(kit.sandbox, call, (veil) => async (params) => {
        const definition = createEditToolDefinition(call.ctx.cwd, { operations: editOperations(kit.files, veil) });
        const result = await definition.execute(call.id, params, call.signal, call.onUpdate, call.ctx);
        // pi shows the lines of the file as they are.
        return result.details ? { ...result, details: { ...result.details, diff: harmless(result.details.diff) } } : result;
      }),
  });
  const { renderCall } = own;
  if (!renderCall) return tool;
  // pi previews an edit from the file on this machine, once its arguments are complete. The result has the difference.
  tool.renderCall = (args, theme, context) =>
    renderCall(args, theme, kit.isInside() ? { ...context, argsComplete: false } : context);
  return tool;
}

function editOperations(files: Files, veil: Veil): EditOperations {
  return {
    access: (path) => files.check(veil.uncover(path), "rw"),
    readFile: (path) => files.read(veil.uncover(path)),
    writeFile: (path, content) => files.write(veil.uncover(path), Buffer.from(content, "utf8")),
  };
}
