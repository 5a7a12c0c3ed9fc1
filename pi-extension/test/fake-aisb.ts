/**
 * A program in the place of `aisb`, for tests: `node fake-aisb.ts serve [flags]`. What it serves is in memory.
 *
 * FAKE_AISB_LOG: a file that gets a line for its start and one for its end. FAKE_AISB: `refuse` says why there is no sandbox,
 * `mute` ends with words on stderr alone, `gate` has a gate.
 */

import { appendFileSync } from "node:fs";
import { join } from "node:path";

import { FakeServer } from "./fake-server.ts";

const log = (line: string) => appendFileSync(process.env["FAKE_AISB_LOG"] ?? "/dev/null", `${line}\n`);
const project = process.cwd();

log(`start ${process.argv.slice(2).join(" ")} in ${project}`);
process.stdin.on("end", () => {
  log("end");
  process.exit(0);
});

const server = new FakeServer(process.stdin, process.stdout);
if (process.env["FAKE_AISB"] === "mute") {
  process.stderr.write("aisb: podman is not installed\naisb:   apt-get install podman\n");
  process.exit(69);
} else if (process.env["FAKE_AISB"] === "refuse") {
  server.notify("failed", { exitCode: 78, message: "the policy is not trusted", hint: "aisb trust" });
  process.exitCode = 78;
  process.stdin.destroy();
} else {
  const policy = process.env["FAKE_AISB"] === "gate" ? { policy: { net: "allow", allow: ["llm.test"], gate: "g" } } : {};
  server.put(join(project, "a.txt"), "inside\n");
  server.hello({ cwd: project, project, mounts: [{ source: project, target: project, readOnly: false }], ...policy });
  server.notify("denied", { time: "t", host: "evil.test", port: 443, message: "no entry covers this host", entry: "evil.test" });
}
