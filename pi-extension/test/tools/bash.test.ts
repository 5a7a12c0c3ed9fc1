import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { bashOperations } from "../../src/commands.ts";
import { bashTool } from "../../src/tools/bash.ts";
import { bench, call, textOf } from "../kit.ts";

test("a command runs inside, in the project, and nothing runs here", async () => {
  const kit = bench();
  const mark = join(kit.project, "mark");
  const result = await call(bashTool(kit), kit, { command: `touch ${mark}` });
  expect(textOf(result)).toBe(`inside: bash -c touch ${mark}`);
  expect(kit.server.commands[0]?.params["cwd"]).toBe(kit.project);
  expect(existsSync(mark)).toBe(false);
});

test("nothing of this machine's environment goes in but pi's words on its session", async () => {
  const kit = bench();
  process.env["AISB_TEST_SECRET"] = "secret";
  await call(bashTool(kit), kit, { command: "env" });
  expect(kit.server.commands[0]?.params["env"]).toEqual({
    PI_SESSION_ID: "session-1",
    PI_PROVIDER: "stub",
    PI_MODEL: "model",
  });
});

test("the exit code and both streams, as they come", async () => {
  const kit = bench();
  kit.server.onCommand = (command) => {
    command.out("one\n");
    command.err("two\n");
    command.out("three\n");
    command.end({ exitCode: 3, signal: null, ended: "exit" });
  };
  const result = await call(bashTool(kit), kit, { command: "x" });
  expect(textOf(result)).toBe("one\ntwo\nthree\n\n\nCommand exited with code 3");
  expect(result).toMatchObject({ isError: true });
});

test("a signal is 128 and its number", async () => {
  const kit = bench();
  kit.server.onCommand = (command) => command.end({ exitCode: null, signal: "SIGKILL", ended: "exit" });
  expect(textOf(await call(bashTool(kit), kit, { command: "x" }))).toContain("Command exited with code 137");
});

test("a time limit is the sandbox's to keep", async () => {
  const kit = bench();
  kit.server.onCommand = (command) => {
    command.out("begun\n");
    command.end({ exitCode: null, signal: null, ended: "timeout" });
  };
  await expect(call(bashTool(kit), kit, { command: "x", timeout: 1.5 })).rejects.toThrow(/begun\n+Command timed out after 1.5 seconds/);
  expect(kit.server.commands[0]?.params["timeoutMs"]).toBe(1500);
  await expect(call(bashTool(kit), kit, { command: "x", timeout: -1 })).rejects.toThrow("Invalid timeout");
});

test("an abort cancels it inside, and keeps what it had said", async () => {
  const kit = bench();
  const stop = new AbortController();
  kit.server.onCommand = async (command) => {
    command.out("begun\n");
    setImmediate(() => stop.abort());
    await command.cancelled;
    command.end({ exitCode: null, signal: "SIGKILL", ended: "cancel" });
  };
  await expect(call(bashTool(kit), kit, { command: "x" }, { signal: stop.signal })).rejects.toThrow(/begun\n+Command aborted/);
});

test("output that is too long is to be read inside, and not left on this machine", async () => {
  const kit = bench();
  const line = `${"x".repeat(99)}\n`;
  kit.server.onCommand = (command) => {
    for (let left = 0; left < 20; left++) command.out(line.repeat(100));
    command.end({ exitCode: 0, signal: null, ended: "exit" });
  };
  const result = await call(bashTool(kit), kit, { command: "x" });
  const path = result.details?.fullOutputPath ?? "";
  expect(textOf(result)).toContain(`Full output: ${path}]`);
  expect(kit.server.files.get(path)?.toString()).toBe(line.repeat(2000));
  expect(existsSync(path)).toBe(false);
});

test("! runs inside as well, and its abort is pi's `aborted`", async () => {
  const kit = bench();
  const said: string[] = [];
  const operations = bashOperations(kit.sandbox);
  const options = { onData: (bytes: Buffer) => said.push(bytes.toString()) };
  expect(await operations.exec("id", kit.project, options)).toEqual({ exitCode: 0 });
  expect(said.join("")).toBe("inside: bash -c id");
  await expect(operations.exec("id", kit.project, { ...options, signal: AbortSignal.abort() })).rejects.toThrow(/^aborted$/);
});
