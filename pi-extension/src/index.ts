/**
 * pi on this machine, its tools in a sandbox.
 *
 * A session's start makes the sandbox, its end takes it away. In between there are three ways for pi to execute anything:
 * the tools (tools/), `!` and `!!` (user_bash, below), and what is named as outside (outside.ts).
 */

import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";

import { allowEntry } from "./allow.ts";
import { bashOperations } from "./commands.ts";
import { Files } from "./files.ts";
import { readFlags, registerFlags, type Wanted } from "./flags.ts";
import { guardTools } from "./guard.ts";
import type { Hello } from "./hello.ts";
import { outsideLines } from "./outside.ts";
import { findProgram, startSession } from "./program.ts";
import { type Denial, Sandbox, type State } from "./sandbox.ts";
import { denialLine, footer, network, nextStep, NO_SANDBOX_FOOTER, statusLines } from "./status.ts";
import { registerTools } from "./tools/index.ts";
import { Voice } from "./voice.ts";
import { Warnings } from "./warnings.ts";

const NO_AISB = "aisb is not on PATH: ./install.sh in a checkout of ai-sandbox puts it into ~/.local/bin";

export default function aiSandbox(pi: ExtensionAPI): void {
  registerFlags(pi);
  const isInside = () => pi.getFlag("no-sandbox") !== true;
  const voice = new Voice();
  const warnings = new Warnings(voice);
  const denied = new Map<string, number>();
  let wanted: Wanted | undefined;
  let cwd = process.cwd();

  const sandbox = new Sandbox(start, { onState, onDenied, onAllowed, onGateLost, onAllowedAgain });
  const kit = { cwd, sandbox, files: new Files(sandbox), isInside, settings: () => pi.getSettings() };
  const marks = registerTools(pi, kit);
  guardTools(pi, marks, isInside);

  pi.on("session_start", (_event, ctx) => {
    voice.attach(ctx);
    warnings.begin();
    cwd = ctx.cwd;
    denied.clear();
    if (!isInside()) {
      voice.footer(NO_SANDBOX_FOOTER);
      voice.say("--no-sandbox: the model's tools and ! run on this machine, as you", "warning");
      return;
    }
    begin();
    sayOutside(ctx);
  });

  pi.on("session_shutdown", async () => {
    warnings.end();
    await sandbox.end();
    voice.detach();
  });

  process.once("exit", () => warnings.flush());

  pi.on("user_bash", () => (isInside() ? { operations: bashOperations(sandbox) } : undefined));

  pi.registerCommand("sandbox-status", {
    description: "The sandbox of this session: image, mounts, network, what was denied, what runs outside",
    handler: async (_args, ctx) => {
      voice.attach(ctx);
      if (!isInside()) return voice.answer(NO_SANDBOX_FOOTER, "warning");
      const status = answerStatus(ctx);
      // A terminal takes the next line meanwhile; in the other modes the answer comes before pi goes on, or ends.
      if (ctx.mode !== "tui") await status;
    },
  });

  pi.registerCommand("sandbox-allow", {
    description: "ENTRY: let the sandbox reach one more host until this session ends (asks)",
    handler: async (args, ctx) => {
      voice.attach(ctx);
      if (!isInside()) return voice.answer(NO_SANDBOX_FOOTER, "warning");
      await allowEntry(sandbox, voice, args, ctx);
      showFooter();
    },
  });

  async function answerStatus(ctx: ExtensionContext): Promise<void> {
    if (ctx.mode === "tui" && sandbox.isComing) voice.say(`${footer(sandbox, 0)}; its status follows once it is there`, "info");
    const outside = outsideLines(pi, ctx, marks);
    // Where there is none in the end the lines say why.
    await sandbox.ready(ctx.signal).catch(() => undefined);
    const told = sandbox.state === "ready" ? await sandbox.call("status", {}).catch(() => undefined) : undefined;
    voice.answer(statusLines(sandbox, told?.result, outside, voice.canAsk).join("\n"), "info");
  }

  function begin(): void {
    try {
      wanted = readFlags((name) => pi.getFlag(name));
    } catch (error) {
      sandbox.refuse(error instanceof Error ? error.message : String(error));
      return;
    }
    sandbox.begin(wanted.logsAllowed);
  }

  function start() {
    const program = findProgram(process.env["PATH"] ?? "", cwd);
    if (program === undefined) throw new Error(NO_AISB);
    return startSession(program, wanted?.flags ?? [], cwd, (line) => warnings.take(line));
  }

  function sayOutside(ctx: ExtensionContext): void {
    const lines = outsideLines(pi, ctx, marks);
    if (lines.length > 0) voice.say(["outside of the sandbox:", ...lines.map((line) => `  ${line}`)].join("\n"), "warning");
  }

  function onState(state: State, reason: string): void {
    // The session is over, and with it pi's interface.
    if (state === "off") return;
    showFooter();
    if (state === "dead") voice.say(`no sandbox, so nothing can be run: ${reason}${nextStep(sandbox, voice.canAsk)}`, "error");
    if (state === "restarting") voice.say("the sandbox died and is started again: its processes and its /tmp are gone", "warning");
    const { hello } = sandbox;
    if (state !== "ready" || !hello) return;
    if (hello.project !== cwd) voice.say(`the sandbox has ${hello.project ?? "no project"}, and pi works in ${cwd}`, "warning");
    sayReach(hello);
  }

  function sayReach(hello: Hello): void {
    const first = `tools run in sandbox ${hello.run}: ${network(hello)}`;
    // Where there is no footer this is all that tells a missing network from a missing host.
    const isNews = hello.net === "full" || (hello.net === "none" && !voice.canAsk);
    const words = hello.net === "none" ? `${first}; hosts are allowed by: pi --sandbox-allow HOST` : first;
    voice.say(words, isNews ? "warning" : "info");
  }

  function onDenied(denial: Denial): void {
    const key = `${denial.host}:${denial.port ?? ""}`;
    const times = denied.get(key) ?? 0;
    denied.set(key, times + 1);
    showFooter();
    // Once for each destination: a program that tries again and again says nothing new.
    if (times === 0) voice.say(`denied ${denialLine(denial, voice.canAsk)}`, "warning");
  }

  function onAllowed(destination: string): void {
    voice.answer(`allowed ${destination}`, "info");
  }

  function onGateLost(message: string): void {
    showFooter();
    voice.say(message, "warning");
  }

  function onAllowedAgain(again: readonly string[], lost: readonly string[]): void {
    if (again.length > 0) voice.say(`allowed again, until this session ends: ${again.join(", ")}`, "info");
    if (lost.length === 0) return;
    const way = lost.map((entry) => `/sandbox-allow ${entry}`).join(", ");
    voice.say(`no longer allowed, since the sandbox died: ${lost.join(", ")}; to allow it again: ${way}`, "warning");
  }

  function showFooter(): void {
    voice.footer(footer(sandbox, [...denied.values()].reduce((all, one) => all + one, 0)));
  }
}
