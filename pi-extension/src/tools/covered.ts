/** pi's own file tools, carried out in the sandbox: each call is one of pi's, with the path covered (paths.ts). */

import type { AgentToolResult, AgentToolUpdateCallback, ExtensionToolContext } from "@earendil-works/pi-coding-agent";

import { insidePath, Veil } from "../paths.ts";
import type { Sandbox } from "../sandbox.ts";
import { harmless } from "../words.ts";

interface Covered<Params, Details> {
  readonly params: Params;
  readonly execute: (params: Params) => Promise<AgentToolResult<Details>>;
}

export interface Call<Params, Details> {
  readonly id: string;
  readonly params: Params;
  readonly signal: AbortSignal | undefined;
  readonly onUpdate: AgentToolUpdateCallback<Details> | undefined;
  readonly ctx: ExtensionToolContext;
}

/** Runs `make`'s tool with the path of these parameters covered, and lifts the cover from what it says. */
export async function executeCovered<Params extends { path?: string }, Details>(
  sandbox: Sandbox,
  call: Call<Params, Details>,
  make: (veil: Veil) => Covered<Params, Details>["execute"],
): Promise<AgentToolResult<Details>> {
  const { home } = await sandbox.ready(call.signal);
  const written = call.params.path ?? ".";
  const inside = insidePath(written, call.ctx.cwd, home);
  const veil = new Veil();
  try {
    const result = await make(veil)({ ...call.params, path: veil.cover(inside) });
    return veil.lift(result, inside, written);
  } catch (error) {
    // pi shows it as it is.
    if (error instanceof Error) error.message = harmless(veil.lift(error.message, inside, written));
    throw error;
  }
}
