import { expect, test } from "vitest";

import { Voice } from "../src/voice.ts";
import { warningIn, Warnings } from "../src/warnings.ts";

class Heard extends Voice {
  readonly said: string[] = [];
  override say(message: string): void {
    this.said.push(message);
  }
}

test.each([
  ["aisb: warning: /p/.envrc has appeared, and this machine may run what it says; to undo it: rm /p/.envrc", true],
  ["aisb: changed, and may be run on this machine: Makefile (new)", true],
  ["aisb: /p/.git/hooks has changed", true],
  ["aisb: /p/.envrc has appeared; to undo it: rm /p/.envrc", true],
  ["aisb: /p/.envrc has appeared", true],
  ["aisb: warning: /p/lib/.git is new, and git on this machine obeys what is in it: x; to undo it: rm -rf /p/lib/.git", true],
  ["aisb: warning: /p/.git/config, which is protected, has changed during this run", true],
  ["aisb: warning: the gate of this run has ended", false],
  ["aisb: /p is at /p", false],
  ["aisb: note: masked, so empty inside: .env", false],
  ["warning: podman's own", false],
])("%s", (line, isOne) => {
  expect(warningIn(line)).toBe(isOne ? line.slice("aisb: ".length) : undefined);
});

test("a warning is said at once, one of a session's end when the next begins, or when pi ends", () => {
  const voice = new Heard();
  let warnings = new Warnings(voice);
  const written: string[] = [];
  warnings.begin();
  warnings.take("aisb: changed, and may be run one");
  warnings.take("aisb: of no interest");
  warnings.end();
  warnings.take("aisb: changed, and may be run two");
  expect(voice.said).toEqual(["changed, and may be run one"]);
  // pi loads its extensions anew.
  warnings = new Warnings(voice);
  warnings.begin();
  expect(voice.said).toEqual(["changed, and may be run one", "changed, and may be run two"]);
  warnings.end();
  warnings.take("aisb: changed, and may be run three");
  warnings.flush((text) => written.push(text));
  warnings.flush((text) => written.push(text));
  expect(written).toEqual(["aisb: changed, and may be run three\n"]);
  expect(voice.said).toEqual(["changed, and may be run one", "changed, and may be run two"]);
});
