import { expect, test } from "vitest";

import { advice, withAdvice } from "../src/advice.ts";

test.each([
  ["look at it and say so: aisb trust --project '/p q' x.yaml\nor, in a script that knows what is in it: --trust-once 1a2b", "look at it and say so: aisb trust x.yaml"],
  ["start one with: aisb --allow a.test", "start one with: pi --sandbox-allow a.test"],
  ["mend the file, or run without it: --no-pi-config", "mend the file"],
  ["name the project's own directory: --project DIR", ""],
  ["build it: aisb build, with the --install and --base-image of the run", "build it: aisb build, with the --install and --base-image of the run"],
  ["sudo usermod --add-subuids 1-2 me", "sudo usermod --add-subuids 1-2 me"],
  ["give the flag: --net full; or, for a list of hosts, take the variable away: unset AISB_NET", "for a list of hosts, take the variable away: unset AISB_NET"],
  ["apt-get install podman", "apt-get install podman"],
])("%j for somebody who uses pi", (hint, words) => {
  expect(advice(hint)).toBe(words);
});

test("advice that leaves nothing leaves no brackets", () => {
  expect([withAdvice("a", "--project DIR"), withAdvice("a", "b")]).toEqual(["a", "a (b)"]);
});
