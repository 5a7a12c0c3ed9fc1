import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { findProgram, startSession } from "../src/program.ts";

function directory(): string {
  const made = realpathSync(mkdtempSync(join(tmpdir(), "aisb-pi-")));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

function script(place: string, text: string): string {
  mkdirSync(place, { recursive: true });
  const file = join(place, "aisb");
  writeFileSync(file, `#!/bin/sh\n${text}\n`);
  chmodSync(file, 0o755);
  return file;
}

test("aisb is taken from PATH, but never from where the agent can write it", () => {
  const home = directory();
  const project = join(home, "project");
  script(join(project, "bin"), "");
  mkdirSync(join(home, "links"));
  symlinkSync(join(project, "bin/aisb"), join(home, "links/aisb"));
  symlinkSync(join(project, "bin"), join(home, "linked"));
  const bad = [join(project, "bin"), ".", "", "bin", join(home, "links"), join(home, "linked"), join(home, "none")].join(":");
  expect(findProgram(bad, project)).toBeUndefined();
  const own = script(join(home, "own"), "");
  expect(findProgram(`${bad}:${join(home, "own")}`, project)).toBe(own);
  chmodSync(own, 0o644);
  expect(findProgram(join(home, "own"), project)).toBeUndefined();
});

test("the end of its input ends it; what it says on stderr is kept", async () => {
  const project = directory();
  const program = script(directory(), 'echo "aisb: $* in $(pwd)" >&2; cat >/dev/null; echo last >&2; exit 3');
  const heard: string[] = [];
  const session = startSession(program, ["--allow=a.test"], project, (line) => heard.push(line));
  await session.stop();
  expect(await session.ended).toBe("exit code 3");
  expect(heard).toEqual(session.said);
  expect(session.said).toEqual([`aisb: serve --allow=a.test in ${project}`, "last"]);
});

test("a long line is heard whole: a warning ends with what undoes it", async () => {
  const heard: string[] = [];
  const program = script(directory(), "printf 'aisb: %3000s end\\n' x >&2");
  const session = startSession(program, [], directory(), (line) => heard.push(line));
  await session.ended;
  expect(heard).toEqual([`aisb: ${" ".repeat(2999)}x end`]);
});

test("a program that is not there is an end too", async () => {
  const session = startSession("/nonexistent/aisb", [], directory());
  expect(await session.ended).toContain("ENOENT");
  await session.stop();
});

test("one that does not heed the end of its input is told once more", async () => {
  const place = directory();
  const program = script(place, `trap 'touch ${place}/told; exit 143' TERM; while :; do sleep 0.1; done`);
  const session = startSession(program, [], directory());
  await session.stop();
  expect(existsSync(join(place, "told"))).toBe(true);
}, 30_000);
