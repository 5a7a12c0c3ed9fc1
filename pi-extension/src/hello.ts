/** What aisb says of the sandbox that it has made: the first frame of a session, taken apart. */

import { isObject, ProtocolError } from "./frames.ts";

export const PROTOCOL = 1;

export interface Mount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

export interface Hello {
  readonly run: string;
  readonly image: string;
  readonly user: string;
  readonly home: string;
  readonly cwd: string;
  readonly project: string | undefined;
  readonly mounts: readonly Mount[];
  readonly net: string;
  readonly allow: readonly string[];
  readonly rules: readonly string[];
  readonly gate: string | undefined;
}

/** Throws a ProtocolError where a member that is needed is missing or of another kind. */
export function readHello(params: Readonly<Record<string, unknown>>): Hello {
  if (params["protocol"] !== PROTOCOL) {
    throw new ProtocolError(`aisb speaks version ${String(params["protocol"])} of the session protocol, this is ${PROTOCOL}`);
  }
  const policy = isObject(params["policy"]) ? params["policy"] : {};
  return {
    run: text(params, "run"),
    image: text(params, "image"),
    user: text(params, "user"),
    home: text(params, "home"),
    cwd: text(params, "cwd"),
    project: typeof params["project"] === "string" ? params["project"] : undefined,
    mounts: list(params["mounts"]).filter(isMount),
    net: text(policy, "net"),
    allow: list(policy["allow"]).filter((entry) => typeof entry === "string"),
    rules: list(policy["rules"]).filter((rule) => typeof rule === "string"),
    gate: typeof policy["gate"] === "string" ? policy["gate"] : undefined,
  };
}

function text(from: Readonly<Record<string, unknown>>, name: string): string {
  const value = from[name];
  if (typeof value !== "string") throw new ProtocolError(`a hello without ${name}`);
  return value;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isMount(value: unknown): value is Mount {
  return isObject(value) && typeof value["source"] === "string" && typeof value["target"] === "string";
}
