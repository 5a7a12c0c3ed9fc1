import { access } from "node:fs/promises";
import { expect, test } from "vitest";

import { insidePath, Veil } from "../src/paths.ts";

test.each([
  ["a.txt", "/p/a.txt"],
  ["./d/../a.txt", "/p/a.txt"],
  ["../x", "/x"],
  ["@a.txt", "/p/a.txt"],
  ["~", "/home/sandbox"],
  ["~/a", "/home/sandbox/a"],
  ["~other/a", "/p/~other/a"],
  ["/etc/passwd", "/etc/passwd"],
  ["file:///etc/a%20b", "/etc/a b"],
  ["a\u202fb.txt", "/p/a b.txt"],
])("%s is %s", (written, inside) => {
  expect(insidePath(written, "/p", "/home/sandbox")).toBe(inside);
});

test("a covered path leads nowhere on this machine, and back to the one inside", async () => {
  const veil = new Veil();
  for (const path of ["/etc/passwd", "/"]) {
    expect(veil.uncover(veil.cover(path))).toBe(path);
    await expect(access(veil.cover(path))).rejects.toMatchObject({ code: "ENOTDIR" });
  }
  expect(() => veil.uncover("/etc/passwd")).toThrow("not a path of the sandbox");
  expect(() => veil.uncover(new Veil().cover("/etc/passwd"))).toThrow("not a path of the sandbox");
});

test("texts name the path as it was written", () => {
  const veil = new Veil();
  const covered = veil.cover("/p/a.txt");
  const result = { content: [{ text: `wrote ${covered}, beside ${veil.cover("/p/b")}` }], details: undefined, n: 1 };
  expect(veil.lift(result, "/p/a.txt", "a.txt")).toEqual({ content: [{ text: "wrote a.txt, beside /p/b" }], details: undefined, n: 1 });
});
