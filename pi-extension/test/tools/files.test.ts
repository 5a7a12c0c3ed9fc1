import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { editTool } from "../../src/tools/edit.ts";
import { lsTool } from "../../src/tools/ls.ts";
import { powershellTool } from "../../src/tools/powershell.ts";
import { readTool } from "../../src/tools/read.ts";
import { writeTool } from "../../src/tools/write.ts";
import { bench, call, CANARY, textOf } from "../kit.ts";

const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

test("read: the text is the sandbox's, whatever is on this machine", async () => {
  const kit = bench();
  kit.server.put(`${kit.project}/a.txt`, "inside\n");
  expect(textOf(await call(readTool(kit), kit, { path: "a.txt" }))).toBe("inside\n");
  expect(textOf(await call(readTool(kit), kit, { path: join(kit.project, "a.txt") }))).toBe("inside\n");
});

test("read: a file of this machine that is not inside is not there, by the sandbox's error", async () => {
  const kit = bench();
  const failed = call(readTool(kit), kit, { path: "a.txt" });
  await expect(failed).rejects.toThrow(`ENOENT: No such file or directory, access '${kit.project}/a.txt'`);
});

test("read: ~ is the sandbox's home", async () => {
  const kit = bench();
  kit.server.put("/home/sandbox/.bashrc", "inside\n");
  expect(textOf(await call(readTool(kit), kit, { path: "~/.bashrc" }))).toBe("inside\n");
});

test("read: lines of a large file, in pieces", async () => {
  const kit = bench();
  const lines = Array.from({ length: 300_000 }, (_, index) => `line ${index + 1}`);
  kit.server.put(`${kit.project}/large`, lines.join("\n"));
  const result = await call(readTool(kit), kit, { path: "large", offset: 200_000, limit: 2 });
  expect(textOf(result)).toMatch(/^line 200000\nline 200001\n\n\[.* more lines in file/);
  expect(kit.server.requests.filter(({ method }) => method === "readFile").length).toBeGreaterThan(3);
});

test("read: a line that is too long names the path as it was written", async () => {
  const kit = bench();
  kit.server.put(`${kit.project}/long`, "x".repeat(60_000));
  expect(textOf(await call(readTool(kit), kit, { path: "./long" }))).toContain("sed -n '1p' ./long | head");
});

test("read: an image keeps its type, whatever its name is", async () => {
  const kit = bench();
  kit.server.put(`${kit.project}/picture.txt`, PIXEL);
  const result = await call(readTool(kit), kit, { path: "picture.txt" });
  expect(result.content[1]).toMatchObject({ type: "image", mimeType: "image/png" });
});

test("write: goes inside, with its directories, and nowhere else", async () => {
  const kit = bench();
  const result = await call(writeTool(kit), kit, { path: "d/e/b.txt", content: "ü" });
  expect(textOf(result)).toBe("Successfully wrote to d/e/b.txt");
  expect(kit.server.files.get(`${kit.project}/d/e/b.txt`)?.toString()).toBe("ü");
  expect(kit.server.directories.has(`${kit.project}/d/e`)).toBe(true);
  expect(() => readFileSync(join(kit.project, "d/e/b.txt"))).toThrow();
  await call(writeTool(kit), kit, { path: "a.txt", content: "inside" });
  expect(readFileSync(join(kit.project, "a.txt"), "utf8")).toBe(`${CANARY}\n`);
});

test("write: more than a frame holds", async () => {
  const kit = bench();
  const content = "0123456789".repeat(400_000);
  await call(writeTool(kit), kit, { path: "large", content });
  expect(kit.server.files.get(`${kit.project}/large`)?.toString()).toBe(content);
});

test("edit: the text comes from inside and goes there, with its line ends", async () => {
  const kit = bench();
  kit.server.put(`${kit.project}/a.txt`, "one\r\ntwo\r\n");
  const edits = [{ oldText: "two", newText: "2" }];
  const result = await call(editTool(kit), kit, { path: "a.txt", edits });
  expect(textOf(result)).toBe("Successfully replaced 1 block(s) in a.txt.");
  expect(JSON.stringify(result.details)).not.toContain("/dev/null/");
  expect(kit.server.files.get(`${kit.project}/a.txt`)?.toString()).toBe("one\r\n2\r\n");
  expect(readFileSync(join(kit.project, "a.txt"), "utf8")).toBe(`${CANARY}\n`);
});

test("edit: what is only on this machine is not edited, and not found", async () => {
  const kit = bench();
  const edits = [{ oldText: CANARY, newText: "x" }];
  const failed = call(editTool(kit), kit, { path: "a.txt", edits });
  await expect(failed).rejects.toThrow("Could not edit file: a.txt. Error code: ENOENT.");
  kit.server.put(`${kit.project}/a.txt`, "inside\n");
  await expect(call(editTool(kit), kit, { path: "a.txt", edits })).rejects.toThrow(/a\.txt/);
});

test("edit: pi's interface previews nothing from this machine", () => {
  const kit = bench();
  const tool = editTool(kit);
  const theme = { fg: (_: string, text: string) => text, bg: (_: string, text: string) => text, bold: (text: string) => text };
  const args = { path: "a.txt", edits: [{ oldText: CANARY, newText: "x" }] };
  const context = () => ({ state: {} as { callComponent?: { previewPending: boolean } }, argsComplete: true, cwd: kit.project, outputPad: 0, invalidate: () => undefined });
  const inside = context();
  tool.renderCall?.(args, theme as never, inside as never);
  expect(inside.state.callComponent?.previewPending).toBe(false);
  // What this test looks at is what pi does without us.
  kit.isHere = true;
  const here = context();
  tool.renderCall?.(args, theme as never, here as never);
  expect(here.state.callComponent?.previewPending).toBe(true);
});

test("ls: the entries inside, directories marked", async () => {
  const kit = bench();
  kit.server.put(`${kit.project}/b.txt`, "");
  kit.server.directories.add(`${kit.project}/d`);
  expect(textOf(await call(lsTool(kit), kit, {}))).toBe("b.txt\nd/");
  await expect(call(lsTool(kit), kit, { path: "none" })).rejects.toThrow(`Path not found: ${kit.project}/none`.replace(`${kit.project}/`, ""));
});

test("powershell: never", async () => {
  const kit = bench();
  await expect(call(powershellTool(kit), kit, { command: "ls" })).rejects.toThrow("outside of the sandbox");
});

test("--no-sandbox: pi's own tools, on this machine", async () => {
  const kit = bench();
  kit.isHere = true;
  expect(textOf(await call(readTool(kit), kit, { path: "a.txt" }))).toBe(`${CANARY}\n`);
  expect(textOf(await call(lsTool(kit), kit, {}))).toBe("a.txt");
  expect(kit.server.requests).toEqual([]);
});

test("edit: what steers a terminal in a file is not in the difference that pi shows", async () => {
  const kit = bench();
  kit.server.put(`${kit.project}/a.txt`, "\u001b]52;c;aGk=\u0007 and \u001b[2J\tbefore\none\u009b2J\n");
  const edits = [{ oldText: "one", newText: "two\u001b]0;x\u0007" }];
  const { details } = await call(editTool(kit), kit, { path: "a.txt", edits });
  expect(details?.diff.split("\n").slice(0, 3)).toEqual([" 1 ]52;c;aGk= and [2J\tbefore", "-2 one2J", "+2 two]0;x2J"]);
});

test("what a call fails with steers no terminal", async () => {
  const kit = bench();
  kit.server.handlers.set("access", ({ id }, server) => {
    server.refuse(id, -32010, "no\u001b[2J", { errno: "E\u001b]0;x\u0007", path: "x" });
  });
  const params = { path: "a\u001b.txt", edits: [{ oldText: "a", newText: "b" }] };
  const said = [call(readTool(kit), kit, params), call(editTool(kit), kit, params)];
  const words = (await Promise.allSettled(said)).map((end) => (end.status === "rejected" ? String(end.reason.message) : ""));
  expect(words).toEqual([`EIO: no[2J, access '${kit.project}/a.txt'`, "Could not edit file: a.txt. Error code: EIO."]);
});

test("ls: entries without an end are given up, also where they are the same ones again and again", async () => {
  const kit = bench();
  let asked = 0;
  const names = Array.from({ length: 30_000 }, (_, number) => `${number}`.padStart(20, "0"));
  kit.server.handlers.set("readdir", ({ id }, server) => {
    asked++;
    server.answer(id, { more: true }, Buffer.from(JSON.stringify(names.map((name) => [name, "file"]))));
  });
  await expect(call(lsTool(kit), kit, { path: "." })).rejects.toThrow("more than 1000000 entries");
  expect(asked).toBe(34);
});
