/** Commands in the sandbox, as pi's shell tools and `!` want them carried out. */

import type { BashOperations } from "@earendil-works/pi-coding-agent";
import { constants } from "node:os";

import { CallError, CANCELLED } from "./errors.ts";
import type { Sandbox } from "./sandbox.ts";

/** What pi tells commands of its session; nothing else of its environment goes in. The session's file is not there. */
const PASSED_ON = ["PI_SESSION_ID", "PI_PROVIDER", "PI_MODEL", "PI_REASONING_LEVEL"];
const SHELL = ["bash", "-c"];

export interface Ended {
  /** As a shell would say it: 128 and the number for a signal. */
  readonly exitCode: number | null;
}

export interface RunOptions {
  readonly cwd: string;
  readonly onStdout: (bytes: Buffer) => void;
  readonly onStderr: (bytes: Buffer) => void;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Runs a program in the sandbox. Rejects with the messages that pi's tools know, `aborted` and `timeout:SECONDS`. */
export async function runCommand(sandbox: Sandbox, command: readonly string[], options: RunOptions): Promise<Ended> {
  const { cwd, env = {}, timeoutMs, signal } = options;
  const params = { command, cwd, env, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
  const onData = (stream: string, bytes: Buffer) => {
    if (stream === "stderr") options.onStderr(bytes);
    else options.onStdout(bytes);
  };
  try {
    const { result } = await sandbox.call("exec", params, { onData, signal });
    if (result["ended"] === "cancel" || signal?.aborted) throw new Error("aborted");
    if (result["ended"] === "timeout") throw new Error(`timeout:${(timeoutMs ?? 0) / 1000}`);
    return { exitCode: exitCode(result) };
  } catch (error) {
    if (error instanceof CallError && error.rpcCode === CANCELLED) throw new Error("aborted");
    if (error instanceof CallError && error.code === "ENOENT") {
      throw new Error(`Working directory does not exist in the sandbox: ${cwd}`);
    }
    throw error;
  }
}

/** The operations of pi's bash tool, and of `!` and `!!`. */
export function bashOperations(sandbox: Sandbox): BashOperations {
  return {
    exec(command, cwd, { onData, signal, timeout, env }) {
      const timeoutMs = timeout === undefined ? undefined : checkedMilliseconds(timeout);
      const options = { cwd, onStdout: onData, onStderr: onData, env: passedOn(env), timeoutMs, signal };
      return runCommand(sandbox, [...SHELL, command], options);
    },
  };
}

function checkedMilliseconds(seconds: number): number {
  const milliseconds = Math.round(seconds * 1000);
  if (!(milliseconds >= 1 && milliseconds <= 2_147_483_647)) {
    throw new Error("Invalid timeout: must be a number of seconds between 0.001 and 2147483");
  }
  return milliseconds;
}

function passedOn(env: NodeJS.ProcessEnv | undefined): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = env?.[name];
    if (value !== undefined) passed[name] = value;
  }
  return passed;
}

function exitCode(result: Readonly<Record<string, unknown>>): number | null {
  if (typeof result["exitCode"] === "number") return result["exitCode"];
  const signal = result["signal"];
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return typeof signal === "string" ? 128 + (numbers[signal] ?? 0) : null;
}
