import { expect, test } from "vitest";

import { fdArguments, findTool } from "../../src/tools/find.ts";
import { grepTool, rgArguments } from "../../src/tools/grep.ts";
import { bench, call, textOf } from "../kit.ts";

function event(type: string, path: string, number: number, text: string): string {
  return `${JSON.stringify({ type, data: { path: { text: path }, line_number: number, lines: { text: `${text}\n` } } })}\n`;
}

function answering(output: string, exitCode = 0) {
  const kit = bench();
  kit.server.put(`${kit.project}/src/a.ts`, "");
  kit.server.onCommand = (command) => {
    command.out(output);
    command.end({ exitCode, signal: null, ended: "exit" });
  };
  return kit;
}

test("grep: the image's rg, in the directory, worded as pi's grep", async () => {
  const kit = answering(event("context", "./src/a.ts", 1, "before") + event("match", "./src/a.ts", 2, "found"));
  const result = await call(grepTool(kit), kit, { pattern: "found", context: 1, glob: "./src/*.ts" });
  expect(textOf(result)).toBe("src/a.ts-1- before\nsrc/a.ts:2: found");
  const [command] = kit.server.commands;
  expect(command?.command.slice(0, 2)).toEqual(["rg", "--no-config"]);
  expect(command?.command.slice(-5)).toEqual(["--context", "1", "--", "found", "."]);
  expect(command?.params["cwd"]).toBe(kit.project);
});

test("grep: one file is named by its last part", async () => {
  const kit = answering(event("match", "/x/src/a.ts", 2, "found"));
  expect(textOf(await call(grepTool(kit), kit, { pattern: "found", path: "src/a.ts" }))).toBe("a.ts:2: found");
  expect(kit.server.commands[0]?.command.at(-1)).toBe(`${kit.project}/src/a.ts`);
});

test("grep: nothing found is no error; a wrong pattern is one", async () => {
  const kit = answering("", 1);
  expect(textOf(await call(grepTool(kit), kit, { pattern: "x" }))).toBe("No matches found");
  kit.server.onCommand = (command) => {
    command.err("regex parse error\n");
    command.end({ exitCode: 2, signal: null, ended: "exit" });
  };
  await expect(call(grepTool(kit), kit, { pattern: "(" })).rejects.toThrow(/^regex parse error$/);
  await expect(call(grepTool(kit), kit, { pattern: "x", path: "none" })).rejects.toThrow(`Path not found: ${kit.project}/none`);
});

test("grep: with enough matches rg is ended", async () => {
  const kit = bench();
  let isCancelled = false;
  kit.server.onCommand = async (command) => {
    for (let number = 1; number <= 5; number++) command.out(event("match", "a", number, "x"));
    await command.cancelled;
    isCancelled = true;
    command.end({ exitCode: null, signal: "SIGKILL", ended: "cancel" });
  };
  const result = await call(grepTool(kit), kit, { pattern: "x", limit: 2 });
  expect(textOf(result)).toBe("a:1: x\na:2: x\n\n[2 matches limit reached. Use limit=4 for more, or refine pattern]");
  expect(result.details).toEqual({ matchLimitReached: 2 });
  expect(isCancelled).toBe(true);
});

test("grep: exactly as many as the limit are not limited", async () => {
  const kit = answering(event("match", "a", 1, "x") + event("match", "a", 2, "x"));
  expect(textOf(await call(grepTool(kit), kit, { pattern: "x", limit: 2 }))).toBe("a:1: x\na:2: x");
});

test("grep: a match after the limit, near enough, is shown as context", async () => {
  const lines = event("match", "a", 1, "x") + event("match", "a", 2, "x") + event("context", "a", 3, "y") + event("match", "b", 1, "x");
  const kit = answering(lines);
  expect(textOf(await call(grepTool(kit), kit, { pattern: "x", limit: 1, context: 1 }))).toMatch(/^a:1: x\na-2- x\n\n\[1 matches limit/);
});

test("grep: long lines are cut, and bytes that are no text shown as they can be", async () => {
  const bytes = Buffer.from([0xff, 0x78]).toString("base64");
  const odd = JSON.stringify({ type: "match", data: { path: { text: "a" }, line_number: 2, lines: { bytes } } });
  const kit = answering(`${event("match", "a", 1, "x".repeat(600))}no JSON\n${odd}\n`);
  const result = await call(grepTool(kit), kit, { pattern: "x" });
  expect(textOf(result)).toMatch(/^a:1: x{500}.*\na:2: \ufffdx\n\n\[Some lines truncated to 500 chars/);
});

test("grep: what rg is asked", () => {
  const params = { pattern: "-x", ignoreCase: true, literal: true, glob: "!./a" };
  expect(rgArguments(params, ".")).toEqual(
    ["--no-config", "--json", "--line-number", "--color=never", "--hidden", "--ignore-case", "--fixed-strings", "--glob", "!a", "--", "-x", "."],
  );
});

test("grep: an abort is pi's", async () => {
  const kit = bench();
  const stop = new AbortController();
  kit.server.onCommand = async (command) => {
    setImmediate(() => stop.abort());
    await command.cancelled;
    command.end({ exitCode: null, signal: null, ended: "cancel" });
  };
  await expect(call(grepTool(kit), kit, { pattern: "x" }, { signal: stop.signal })).rejects.toThrow("Operation aborted");
});

test("find: the image's fd, with paths from the directory", async () => {
  const kit = bench();
  kit.server.onCommand = (command) => {
    command.out(`${kit.project}/src/a.ts\n${kit.project}/src/d/\n`);
    command.end({ exitCode: 0, signal: null, ended: "exit" });
  };
  expect(textOf(await call(findTool(kit), kit, { pattern: "*" }))).toBe("src/a.ts\nsrc/d/");
  const [command] = kit.server.commands;
  expect(command?.command.slice(0, 2)).toEqual(["fd", "--no-require-git"]);
});

test("find: in a repository git's rules hold", async () => {
  const kit = answering("");
  kit.server.directories.add(`${kit.project}/.git`);
  expect(textOf(await call(findTool(kit), kit, { pattern: "*", path: "src" }))).toBe("No files found matching pattern");
  expect(kit.server.commands[0]?.command).not.toContain("--no-require-git");
});

test("find: a limit, an error, a path that is not there", async () => {
  const kit = bench();
  kit.server.onCommand = (command) => {
    command.out(`${kit.project}/a\n${kit.project}/b\n`);
    command.end({ exitCode: 0, signal: null, ended: "exit" });
  };
  expect(textOf(await call(findTool(kit), kit, { pattern: "*", limit: 1 }))).toMatch(/^a\n\n\[1 results limit reached/);
  kit.server.onCommand = (command) => {
    command.err("[fd error]: bad glob\n");
    command.end({ exitCode: 1, signal: null, ended: "exit" });
  };
  await expect(call(findTool(kit), kit, { pattern: "[" })).rejects.toThrow("[fd error]: bad glob");
  await expect(call(findTool(kit), kit, { pattern: "*", path: "none" })).rejects.toThrow("Path not found: none");
});

test.each([
  ["*.ts", ["--glob", "--max-results", "3", "--", "*.ts", "/p[1]"]],
  ["./src/*.ts", ["--glob", "--max-results", "3", "--full-path", "--ignore-case", "--", "/p\\[1\\]/src/*.ts", "/p[1]"]],
  ["Src/**", ["--glob", "--max-results", "3", "--full-path", "--", "/p\\[1\\]/Src/**", "/p[1]"]],
  ["/p/*", ["--glob", "--max-results", "3", "--full-path", "--", "/p/*", "/p[1]"]],
])("find: what fd is asked for %s", (pattern, args) => {
  expect(fdArguments(pattern, "/p[1]", 3)).toEqual(["--color=never", "--hidden", "--absolute-path", ...args]);
});
