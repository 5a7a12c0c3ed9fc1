/** `ls`: the entries come from the sandbox with their types; only a link is looked up. */

import { createLsToolDefinition, type LsOperations } from "@earendil-works/pi-coding-agent";
import { posix } from "node:path";

import type { Files, Kind } from "../files.ts";
import type { Veil } from "../paths.ts";
import { executeCovered } from "./covered.ts";
import { type Kit, override } from "./override.ts";

export function lsTool(kit: Kit) {
  return override(kit, createLsToolDefinition(kit.cwd), {
    here: (cwd) => createLsToolDefinition(cwd),
    inside: (call) =>
      executeCovered(kit.sandbox, call, (veil) => (params) => {
        const tool = createLsToolDefinition(call.ctx.cwd, { operations: lsOperations(kit.files, veil) });
        return tool.execute(call.id, params, call.signal, call.onUpdate, call.ctx);
      }),
  });
}

function lsOperations(files: Files, veil: Veil): LsOperations {
  const kinds = new Map<string, Kind>();
  return {
    exists: (path) => files.exists(veil.uncover(path)),
    readdir: async (path) => {
      const directory = veil.uncover(path);
      const entries = await files.list(directory);
      for (const [name, kind] of entries) kinds.set(posix.join(directory, name), kind);
      return [...entries.keys()];
    },
    stat: async (path) => {
      const inside = veil.uncover(path);
      const kind = kinds.get(inside);
      const isDirectory =
        kind === undefined || kind === "symlink" ? await files.isDirectory(inside) : kind === "directory";
      return { isDirectory: () => isDirectory };
    },
  };
}
