import { expect, test } from "vitest";

import { duration, oneLine } from "../src/words.ts";

test("what steers a terminal is taken out, and lines become one", () => {
  expect(oneLine("a\u001b]0;x\u0007b\r\nc\u009bd\u202ee")).toBe("a]0;xb cde");
  expect(oneLine("x".repeat(600))).toHaveLength(501);
});

test.each([
  [5_999, "5 s"],
  [245_000, "4 min 5 s"],
  [7_320_000, "2 h 2 min"],
])("%d ms", (milliseconds, text) => {
  expect(duration(milliseconds)).toBe(text);
});
