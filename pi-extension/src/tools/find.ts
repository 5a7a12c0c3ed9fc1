/** `find`: the image's fd looks, inside; pi words the result. */

import { createFindToolDefinition, type FindOperations } from "@earendil-works/pi-coding-agent";
import { posix } from "node:path";

import { runCommand } from "../commands.ts";
import type { Veil } from "../paths.ts";
import { executeCovered } from "./covered.ts";
import { needSuccess, Output } from "./output.ts";
import { type Kit, override } from "./override.ts";

export function findTool(kit: Kit) {
  return override(kit, createFindToolDefinition(kit.cwd), {
    here: (cwd) => createFindToolDefinition(cwd),
    inside: (call) =>
      executeCovered(kit.sandbox, call, (veil) => (params) => {
        const operations = findOperations(kit, veil, call.signal);
        const tool = createFindToolDefinition(call.ctx.cwd, { operations });
        return tool.execute(call.id, params, call.signal, call.onUpdate, call.ctx);
      }),
  });
}

function findOperations(kit: Kit, veil: Veil, signal: AbortSignal | undefined): FindOperations {
  return {
    exists: (path) => kit.files.exists(veil.uncover(path)),
    glob: async (pattern, path, { limit }) => {
      const directory = veil.uncover(path);
      const flags = (await isInRepository(kit, directory)) ? [] : ["--no-require-git"];
      const output = new Output();
      const command = ["fd", ...flags, ...fdArguments(pattern, directory, limit)];
      const ended = await runCommand(kit.sandbox, command, { cwd: directory, ...output.sinks, signal });
      const found = output.lines().filter((line) => line.startsWith("/"));
      if (found.length === 0) needSuccess("fd", ended, output, [0]);
      return found.map((line) => veil.cover(line));
    },
  };
}

/** What pi's own find asks of fd: names at any depth, or, with a slash, paths from the directory on. */
export function fdArguments(pattern: string, directory: string, limit: number): string[] {
  const glob = pattern.replace(/^(?:\.\/)+/, "");
  const args = ["--color=never", "--hidden", "--absolute-path", "--glob", "--max-results", String(limit)];
  if (!glob.includes("/")) return [...args, "--", glob, directory];
  args.push("--full-path");
  if (posix.isAbsolute(glob)) return [...args, "--", glob, directory];
  // fd decides by the pattern's letters whether case counts; the directory's letters have no say in it.
  if (glob === glob.toLowerCase()) args.push("--ignore-case");
  const literal = directory.replace(/\/+$/, "").replace(/[\\*?[\]{}]/g, "\\$&");
  return [...args, "--", `${literal}/${glob}`, directory];
}

/** In a repository git's own rules for .gitignore hold; elsewhere each .gitignore counts all the same. */
async function isInRepository(kit: Kit, directory: string): Promise<boolean> {
  for (let at = directory; ; at = posix.dirname(at)) {
    if (await kit.files.exists(posix.join(at, ".git"))) return true;
    if (at === "/") return false;
  }
}
