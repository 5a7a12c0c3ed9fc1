/**
 * `bash`: the command runs in the sandbox.
 *
 * Output that is too long for the model is kept by pi in a file of this machine, whose name the model is told. The file is
 * moved into the sandbox, under that name: `read` finds it there, and none is left here.
 */

import { createBashToolDefinition, type BashOperations } from "@earendil-works/pi-coding-agent";
import { createReadStream } from "node:fs";
import { rm } from "node:fs/promises";
import { basename } from "node:path";

import { bashOperations } from "../commands.ts";
import type { Files } from "../files.ts";
import { type Kit, override } from "./override.ts";

/** Where programs of the sandbox leave such files too. */
const KEPT_IN = "/tmp";

export function bashTool(kit: Kit) {
  const definition = (cwd: string, operations?: BashOperations) => {
    const { shellCommandPrefix: commandPrefix, shellPath } = kit.settings();
    return createBashToolDefinition(cwd, {
      ...(commandPrefix ? { commandPrefix } : {}),
      ...(operations ? { operations } : shellPath ? { shellPath } : {}),
    });
  };
  // pi has no settings yet while extensions are loaded.
  return override(kit, createBashToolDefinition(kit.cwd), {
    here: (cwd) => definition(cwd),
    inside: async ({ id, params, signal, onUpdate, ctx }) => {
      let kept: string | undefined;
      const watched: typeof onUpdate = (update) => {
        kept = update.details?.fullOutputPath ?? kept;
        onUpdate?.(update);
      };
      const tool = definition(ctx.cwd, bashOperations(kit.sandbox));
      try {
        const result = await tool.execute(id, params, signal, watched, ctx);
        kept = result.details?.fullOutputPath ?? kept;
        return kept ? renamed(result, kept) : result;
      } catch (error) {
        if (kept && error instanceof Error) error.message = renamed(error.message, kept);
        throw error;
      } finally {
        if (kept) await moveInside(kit.files, kept);
      }
    },
  });
}

/** The same value, with the name that the file has inside. */
function renamed<Value>(value: Value, kept: string): Value {
  const inside = insideName(kept);
  if (inside === kept) return value;
  const text = JSON.stringify(value).replaceAll(JSON.stringify(kept).slice(1, -1), JSON.stringify(inside).slice(1, -1));
  return JSON.parse(text) as Value;
}

function insideName(kept: string): string {
  return `${KEPT_IN}/${basename(kept)}`;
}

async function moveInside(files: Files, kept: string): Promise<void> {
  try {
    await files.writeFrom(insideName(kept), createReadStream(kept, { highWaterMark: 262_144 }));
  } catch {
    // No room, or no sandbox any more: the model is then told that there is no such file.
  } finally {
    await rm(kept, { force: true });
  }
}
