/**
 * A program in the place of `aisb`, for tests: `node fake-aisb.ts serve [flags]`. What it serves is in memory.
 *
 * FAKE_AISB_LOG: a file that gets a line for its start and one for its end. FAKE_AISB: `refuse` says why there is no sandbox,
 * `mute` ends with words on stderr alone, `gate` has a gate, `lost` had one, `dies` is gone for good at once, `{"net": ...}`
 * is a policy of its own. Each `denied` of FAKE_AISB_DENIED is one more request to evil.test. What it warns of is in
 * FAKE_AISB_WARNS: at once, and at its end.
 */

import { appendFileSync, writeSync } from "node:fs";
import { join } from "node:path";

import { FakeServer } from "./fake-server.ts";

const log = (line: string) => appendFileSync(process.env["FAKE_AISB_LOG"] ?? "/dev/null", `${line}\n`);
const project = process.cwd();
const warnings = (process.env["FAKE_AISB_WARNS"] ?? "").split("\n").filter((line) => line !== "");

log(`start ${process.argv.slice(2).join(" ")} in ${project}`);
process.stdin.on("end", () => {
  log("end");
  for (const line of warnings.slice(1)) writeSync(2, `aisb: ${line}\n`);
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
  const mode = process.env["FAKE_AISB"] ?? "";
  const gated = mode === "gate" || mode === "lost" ? { net: "allow", allow: ["llm.test"], gate: "g" } : undefined;
  const own: unknown = mode.startsWith("{") ? JSON.parse(mode) : gated;
  const policy = own === undefined ? {} : { policy: own };
  server.put(join(project, "a.txt"), "inside\n");
  server.hello({ cwd: project, project, mounts: [{ source: project, target: project, readOnly: false }], ...policy });
  const denied = { time: "t", host: "evil.test", port: 443, message: "no entry covers this host", entry: "evil.test" };
  for (let times = 0; times < Number(process.env["FAKE_AISB_DENIED"] ?? 1); times++) server.notify("denied", denied);
  if (mode === "lost") server.notify("gate", { state: "ended", message: "the gate of this run has ended" });
  if (mode === "dies") server.notify("sandbox", { state: "dead", reason: "it died a second time" });
  for (const line of warnings.slice(0, 1)) process.stderr.write(`aisb: ${line}\n`);
}
