/** A tool of pi's under its own name, of which no call is carried out on this machine unless the user said so. */

import type { AgentToolResult, ExtensionAPI, ToolDefinition } from "@earendil-works/pi-coding-agent";

import type { Files } from "../files.ts";
import type { Sandbox } from "../sandbox.ts";
import type { Call } from "./covered.ts";

/** What the tools of one session share. */
export interface Kit {
  readonly cwd: string;
  readonly sandbox: Sandbox;
  readonly files: Files;
  /** False only with --no-sandbox. */
  isInside(): boolean;
  settings(): ReturnType<ExtensionAPI["getSettings"]>;
}

type Schema = ToolDefinition["parameters"];

interface Places<Params extends Schema, Details, State> {
  /** pi's own tool, for --no-sandbox. */
  here(cwd: string): ToolDefinition<Params, Details, State>;
  inside(call: Call<ParamsOf<Params, Details, State>, Details>): Promise<AgentToolResult<Details>>;
}

type ParamsOf<Params extends Schema, Details, State> = Parameters<ToolDefinition<Params, Details, State>["execute"]>[1];

export function override<Params extends Schema, Details, State>(
  kit: Kit,
  definition: ToolDefinition<Params, Details, State>,
  { here, inside }: Places<Params, Details, State>,
): ToolDefinition<Params, Details, State> {
  return {
    ...definition,
    // An object of our own: by it a tool of this name is known to be this one (guard.ts).
    parameters: copy(definition.parameters),
    // Which tools are active is pi's matter (--tools, defaultTools), as without this extension.
    defaultActive: false,
    execute: (id, params, signal, onUpdate, ctx) =>
      kit.isInside()
        ? inside({ id, params, signal, onUpdate, ctx })
        : here(ctx.cwd).execute(id, params, signal, onUpdate, ctx),
  };
}

function copy<Value extends object>(value: Value): Value {
  return Object.defineProperties({}, Object.getOwnPropertyDescriptors(value)) as Value;
}
