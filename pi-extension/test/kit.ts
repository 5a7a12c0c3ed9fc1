/** One session for a tool's test: the fake server inside, and on this machine files that nobody may see. */

import type { AgentToolResult, ExtensionToolContext, ToolDefinition } from "@earendil-works/pi-coding-agent";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

import { Files } from "../src/files.ts";
import { Sandbox } from "../src/sandbox.ts";
import type { Kit } from "../src/tools/override.ts";
import { type FakeServer, fakeSession } from "./fake-server.ts";

export const CANARY = "the host's own";

export interface Bench extends Kit {
  readonly server: FakeServer;
  /** The project: on this machine it holds `a.txt` with the canary, inside it is empty. */
  readonly project: string;
  isHere: boolean;
}

export function bench(): Bench {
  const project = mkdtempSync(join(tmpdir(), "aisb-pi-"));
  onTestFinished(() => rmSync(project, { recursive: true }));
  writeFileSync(join(project, "a.txt"), `${CANARY}\n`);
  const session = fakeSession();
  const nothing = () => undefined;
  const sandbox = new Sandbox(() => session, { onState: nothing, onDenied: nothing, onAllowed: nothing, onGateLost: nothing, onAllowedAgain: nothing });
  sandbox.begin(false);
  session.server.directories.add(project);
  session.server.hello({ cwd: project, project });
  const made: Bench = {
    cwd: project,
    project,
    server: session.server,
    sandbox,
    files: new Files(sandbox),
    isHere: false,
    isInside: () => !made.isHere,
    settings: () => ({}),
  };
  return made;
}

type Params = Record<string, unknown>;

/** Calls a tool as pi does. */
export function call<Details>(
  // Tools of any parameters: pi itself holds them so.
  tool: ToolDefinition<any, Details, any>,
  bench: Bench,
  params: Params,
  options: { signal?: AbortSignal; onUpdate?: (update: AgentToolResult<Details>) => void } = {},
): Promise<AgentToolResult<Details>> {
  const ctx = {
    cwd: bench.project,
    model: { provider: "stub", id: "model", input: ["text", "image"] },
    sessionManager: { getSessionId: () => "session-1", getSessionFile: () => "/home/user/.pi/session.jsonl" },
  };
  return tool.execute("call-1", params, options.signal, options.onUpdate, ctx as unknown as ExtensionToolContext);
}

export function textOf(result: AgentToolResult<unknown>): string {
  return result.content.map((part) => (part.type === "text" ? part.text : `<${part.mimeType}>`)).join("\n");
}
