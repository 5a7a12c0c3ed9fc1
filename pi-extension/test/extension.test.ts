import type { ExtensionAPI, ToolDefinition } from "@earendil-works/pi-coding-agent";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";

import aiSandbox from "../src/index.ts";

const FAKE = join(dirname(fileURLToPath(import.meta.url)), "fake-aisb.ts");
const SEVEN = ["read", "bash", "edit", "write", "grep", "find", "ls"];

interface Said {
  readonly message: string;
  readonly weight: string;
}

interface Options {
  readonly hasUI?: boolean;
  readonly answer?: boolean;
  readonly mode?: string;
  readonly piMode?: string;
  readonly denied?: number;
  readonly warns?: readonly string[];
}

/** pi, as far as the extension sees it. */
function pi(flags: Record<string, string | boolean> = {}, options: Options = {}) {
  const home = realpathSync(mkdtempSync(join(tmpdir(), "aisb-pi-")));
  const project = join(home, "project");
  const log = join(home, "log");
  mkdirSync(project);
  writeFileSync(log, "");
  writeFileSync(join(home, "aisb"), `#!/bin/sh\nexec "${process.execPath}" "${FAKE}" "$@"\n`);
  chmodSync(join(home, "aisb"), 0o755);
  vi.stubEnv("PATH", `${home}:/usr/bin:/bin`);
  vi.stubEnv("FAKE_AISB_LOG", log);
  vi.stubEnv("FAKE_AISB", options.mode ?? "");
  vi.stubEnv("FAKE_AISB_DENIED", String(options.denied ?? 1));
  vi.stubEnv("FAKE_AISB_WARNS", options.warns?.join("\n") ?? "");
  vi.stubEnv("PI_CODING_AGENT_DIR", home);
  const handlers = new Map<string, (event: unknown, ctx: unknown) => unknown>();
  const commands = new Map<string, { handler: (args: string, ctx: unknown) => Promise<void> }>();
  const tools = new Map<string, ToolDefinition>();
  const said: Said[] = [];
  const footers: (string | undefined)[] = [];
  const asked: string[] = [];
  const others: unknown[] = [];
  let isLoaded = false;
  // While extensions are loaded pi refuses what acts or asks.
  const acting = <Value>(value: () => Value): Value => {
    if (!isLoaded) throw new Error("Extension runtime not initialized");
    return value();
  };
  const ctx = {
    cwd: project,
    hasUI: options.hasUI ?? true,
    mode: options.piMode ?? "rpc",
    isProjectTrusted: () => true,
    model: undefined,
    sessionManager: { getSessionId: () => "s", getSessionFile: () => undefined },
    ui: {
      notify: (message: string, weight: string) => said.push({ message, weight }),
      setStatus: (_key: string, text: string | undefined) => footers.push(text),
      confirm: async (title: string) => {
        asked.push(title);
        return options.answer ?? false;
      },
    },
  };
  const api = {
    on: (event: string, handler: (event: unknown, ctx: unknown) => unknown) => handlers.set(event, handler),
    registerFlag: () => undefined,
    getFlag: (name: string) => flags[name],
    registerTool: (tool: ToolDefinition) => tools.set(tool.name, tool),
    registerCommand: (name: string, command: { handler: (args: string, ctx: unknown) => Promise<void> }) => commands.set(name, command),
    getSettings: () => acting(() => ({})),
    getMcpServers: () => acting(() => [{ name: "registered", config: { url: "https://y" } }]),
    getActiveTools: () => acting(() => ["codemode"]),
    getAllTools: () => acting(allTools),
  };
  const allTools = () => [
    ...others,
    ...[...tools.values()].map(({ name, parameters }) => ({ name, parameters, exposure: "direct", sourceInfo: { source: "local", path: "ours" } })),
  ];
  aiSandbox(api as unknown as ExtensionAPI);
  isLoaded = true;
  const emit = async (event: string, data: object = {}) => handlers.get(event)?.({ type: event, ...data }, ctx);
  onTestFinished(async () => {
    await emit("session_shutdown");
    vi.unstubAllEnvs();
    rmSync(home, { recursive: true });
  });
  return {
    home, project, tools, said, footers, asked, others, emit,
    log: () => readFileSync(log, "utf8"),
    command: (name: string, args = "") => commands.get(name)?.handler(args, ctx),
    call: (name: string, params: object) => tools.get(name)?.execute("id", params as never, undefined, undefined, ctx as never),
    heard: (words: string) => vi.waitFor(() => expect(said.map(({ message }) => message).join("\n")).toContain(words), 10_000),
  };
}

/** What goes to stderr from now on, until the test ends. */
function errors(): () => string {
  const lines: string[] = [];
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  onTestFinished(() => write.mockRestore());
  return () => lines.join("");
}

test("a session has a sandbox, and its end takes it away", async () => {
  const { emit, call, log, project, heard, footers } = pi({ "sandbox-allow": "a.test,b.test", "sandbox-image": "debian:13", "egress-policy": "p.yaml" });
  expect(log()).toBe("");
  await emit("session_start");
  expect(await call("read", { path: "a.txt" })).toMatchObject({ content: [{ text: "inside\n" }] });
  await heard("tools run in sandbox 3f2a19bc: no network");
  expect(log()).toBe(`start serve --base-image=debian:13 --policy=p.yaml --allow=a.test,b.test in ${project}\n`);
  await emit("session_shutdown");
  expect(log()).toMatch(/\nend\n$/);
  await expect(call("read", { path: "a.txt" })).rejects.toThrow("There is no sandbox");
  expect(footers[0]).toBe("sandbox: starting");
  // The session's end is no state of pi's interface, which is gone by then.
  expect(footers.at(-1)).toBe("sandbox 3f2a19bc: no network, 1 request denied");
});

test("of a destination that is tried again and again the first denial is told, and all are counted", async () => {
  const { emit, said, footers } = pi({}, { denied: 3 });
  await emit("session_start");
  await vi.waitFor(() => expect(footers.at(-1)).toBe("sandbox 3f2a19bc: no network, 3 requests denied"), 10_000);
  expect(said.filter(({ message }) => message.startsWith("denied "))).toHaveLength(1);
});

test("that the gate has ended is said, and nothing can be allowed any more", async () => {
  const { emit, command, heard, said, asked } = pi({}, { answer: true, mode: "lost" });
  await emit("session_start");
  await heard("the gate of this run has ended");
  expect(said.find(({ message }) => message === "the gate of this run has ended")?.weight).toBe("warning");
  await command("sandbox-allow", "evil.test");
  await heard("the gate of this session has ended: it takes a new session: pi --sandbox-allow 'evil.test'");
  expect(asked).toEqual([]);
});

test("what aisb warns of is told at once; of a session's end when the next one begins", async () => {
  const [first, second] = ["warning: /p/.envrc has appeared, and this machine may run what it says", "changed, and may be run on this machine: Makefile"];
  const { emit, heard, said, call } = pi({}, { warns: [first, second] });
  await emit("session_start");
  await heard(first);
  await emit("session_shutdown");
  expect(said.map(({ message }) => message)).not.toContain(second);
  await emit("session_start");
  await heard(second);
  await call("read", { path: "a.txt" });
});

test("a denial is told with what would allow it, and /sandbox-allow asks first", async () => {
  const refusing = pi({}, { mode: "gate" });
  await refusing.emit("session_start");
  await refusing.heard("denied evil.test:443: no entry covers this host; to allow it: /sandbox-allow evil.test");
  await refusing.command("sandbox-allow", "evil.test");
  await refusing.heard("evil.test was not allowed");
  expect(refusing.asked).toEqual(["Let the sandbox reach evil.test?"]);
  await refusing.command("sandbox-allow", "");
  await refusing.heard("/sandbox-allow ENTRY");
  expect(refusing.asked).toHaveLength(1);
});

test("/sandbox-allow allows what was agreed to", async () => {
  const { emit, command, heard } = pi({}, { answer: true, mode: "gate" });
  await emit("session_start");
  await command("sandbox-allow", " evil.test ");
  await heard("allowed until this session ends: evil.test");
});

test("/sandbox-allow asks nothing where nothing can be allowed: no network, or no entry", async () => {
  const { emit, command, heard, asked } = pi({}, { answer: true });
  await emit("session_start");
  await command("sandbox-allow", "evil.test");
  await heard("this session has no network, which stays so: it takes a new session: pi --sandbox-allow 'evil.test'");
  await command("sandbox-allow", "nope..x");
  await heard("not allowed: aisb allow: nope..x is no name (write: pi --sandbox-allow a.test)");
  expect(asked).toEqual([]);
});

test.each([
  ["open", { net: "full", allow: [], gate: null }, "evil.test", "this session has an open network: everything is reached already"],
  ["pinned", { net: "pinned", allow: [], gate: null }, "evil.test", "this session has no gate, so what it reaches stays as it is: it takes a new session: pi --sandbox-allow 'evil.test'"],
  ["rule", undefined, "GET evil.test/x", "GET evil.test/x takes a session of its own: start pi with --sandbox-allow 'GET evil.test/x'"],
  ["preset", undefined, "@npm", "@npm takes a session of its own: start pi with --sandbox-allow '@npm'"],
  ["port of the host", undefined, "host:1", "host:1 takes a session of its own: start pi with --sandbox-allow 'host:1'"],
  ["address", undefined, "192.0.2.1", "not allowed: nothing is opened by that: pi --sandbox-allow 192.0.2.1"],
  ["addresses", undefined, "192.0.2.0/24", "not allowed: nothing is opened by that: pi --sandbox-allow 192.0.2.1"],
  ["not to be shown", undefined, "evil\u001b[2J.test", "/sandbox-allow ENTRY, as aisb's --allow takes it"],
])("/sandbox-allow asks nothing where nothing would be opened: %s", async (_name, policy, entry, words) => {
  const { emit, command, said, asked } = pi({}, { answer: true, mode: policy ? JSON.stringify(policy) : "gate" });
  await emit("session_start");
  const before = said.length;
  await command("sandbox-allow", entry);
  expect(said.slice(before).map(({ message }) => message).join("\n")).toContain(words);
  expect(asked).toEqual([]);
});

test("/sandbox-allow of a name and an address: the name alone is said to be allowed", async () => {
  const { emit, command, said, footers } = pi({}, { answer: true, mode: "gate" });
  await emit("session_start");
  await command("sandbox-allow", "b.test,192.0.2.1");
  expect(said.slice(-2).map(({ message }) => message)).toEqual([
    "allowed until this session ends: b.test",
    "nothing is opened by that: pi --sandbox-allow 192.0.2.1",
  ]);
  expect(footers.at(-1)).toMatch(/^sandbox 3f2a19bc: 2 entries allowed/);
});

test("/sandbox-status tells of the sandbox, and of what is outside of it", async () => {
  const { emit, command, said, others, home, project, call } = pi();
  writeFileSync(join(home, "mcp.json"), JSON.stringify({ mcpServers: { files: { command: "x" }, web: { url: "https://x" }, off: { command: "x", enabled: false } } }));
  others.push({ name: "deploy", parameters: {}, exposure: "direct", sourceInfo: { source: "local", path: "/x/deploy.ts" } });
  others.push({ name: "codemode", parameters: {}, exposure: "direct", sourceInfo: { source: "builtin", path: "builtin:codemode" } });
  await emit("session_start");
  await call("read", { path: "a.txt" });
  const before = said.length;
  await command("sandbox-status");
  const status = said.slice(before).map(({ message }) => message).join("\n");
  for (const line of [
    "sandbox: ready",
    "image: aisb-sandbox:1",
    "run: 3f2a19bc",
    `  ${project}`,
    "network: no network",
    "up for 1 min 1 s",
    "requests: 2 allowed, 1 denied",
    "last denied:",
    "evil.test:443: no entry covers this host",
    "MCP server files: a program on this machine",
    "MCP server web: reached from this machine",
    "MCP server registered: reached from this machine",
    "codemode: its scripts run inside of pi",
    "tools of /x/deploy.ts, on this machine: deploy",
  ]) expect(status).toContain(line);
  expect(status).not.toContain("off");
  expect(said.find(({ weight }) => weight === "warning")?.message).toMatch(/^outside of the sandbox:\n(  .*\n)*  MCP server files: a program/);
});

test.each(["print", "rpc"])("/sandbox-status in the first moment of a session is answered once the sandbox is there: %s", async (piMode) => {
  const told = errors();
  const { emit, command, said } = pi({}, { piMode, hasUI: piMode === "rpc" });
  await emit("session_start");
  await command("sandbox-status");
  const status = piMode === "rpc" ? said.map(({ message }) => message).join("\n") : told();
  expect(status).toMatch(/(^|\n)(aisb: )?sandbox: ready\n/);
  expect(status).not.toContain("starting");
  expect(status).toContain("up for 1 min 1 s");
});

test("/sandbox-status in a terminal says that it follows, and holds up nothing", async () => {
  const { emit, command, said, heard } = pi({}, { piMode: "tui" });
  await emit("session_start");
  await command("sandbox-status");
  expect(said.at(-1)?.message).toBe("sandbox: starting; its status follows once it is there");
  await heard("up for 1 min 1 s");
});

test.each([
  ["what aisb says on the pipe", "refuse", "the policy is not trusted (aisb trust)"],
  ["what it says on stderr", "mute", "podman is not installed (apt-get install podman)"],
])("no sandbox, no execution: %s", async (_name, mode, words) => {
  const { emit, call, heard, footers, command } = pi({}, { mode });
  await emit("session_start");
  for (const name of SEVEN) {
    const params = { path: "a.txt", command: "id", pattern: "x", content: "x", edits: [{ oldText: "inside", newText: "x" }] };
    await expect(call(name, params)).rejects.toThrow(words);
  }
  const bash = (await emit("user_bash", { command: "id" })) as { operations: { exec: (...args: unknown[]) => Promise<unknown> } };
  await expect(bash.operations.exec("id", "/", { onData: () => undefined })).rejects.toThrow(words);
  await heard(`no sandbox, so nothing can be run: ${words}`);
  expect(footers.at(-1)).toBe("NO SANDBOX: nothing can be run");
  await command("sandbox-status");
  await heard("sandbox: dead");
});

test("a sandbox that died a second time is said with what makes a new one", async () => {
  const { emit, heard } = pi({}, { mode: "dies" });
  await emit("session_start");
  await heard("no sandbox, so nothing can be run: it died a second time; a new session has a new one: /new or /reload");
});

test("without aisb nothing runs", async () => {
  const { emit, call, heard } = pi();
  vi.stubEnv("PATH", "/usr/bin:/bin");
  await emit("session_start");
  const words = "aisb is not on PATH: ./install.sh in a checkout of ai-sandbox puts it into ~/.local/bin";
  await expect(call("bash", { command: "id" })).rejects.toThrow(words);
  await heard(`no sandbox, so nothing can be run: ${words}; once that is mended: /reload`);
});

test("a flag that means nothing is no reason to run unprotected", async () => {
  const { emit, call, log } = pi({ "sandbox-log": "some" });
  await emit("session_start");
  await expect(call("bash", { command: "id" })).rejects.toThrow("--sandbox-log is all or denied, not some");
  expect(log()).toBe("");
});

test("--no-sandbox: pi's own, and the footer says so", async () => {
  const { emit, call, log, footers, said, project, command, heard } = pi({ "no-sandbox": true });
  writeFileSync(join(project, "a.txt"), "the host's own");
  await emit("session_start");
  expect(await call("read", { path: "a.txt" })).toMatchObject({ content: [{ text: "the host's own" }] });
  expect(await emit("user_bash", { command: "id" })).toBeUndefined();
  expect(await emit("tool_call", { toolName: "bash" })).toBeUndefined();
  expect(footers).toEqual(["NO SANDBOX: tools run on this machine"]);
  expect(said[0]?.weight).toBe("warning");
  expect(log()).toBe("");
  await command("sandbox-status");
  await heard("NO SANDBOX: tools run on this machine");
});

test("another extension's tool of that name is blocked, and named", async () => {
  const { emit, others, heard } = pi();
  expect(await emit("tool_call", { toolName: "bash" })).toBeUndefined();
  others.push({ name: "bash", parameters: {}, exposure: "direct", sourceInfo: { source: "local", path: "/x/other.ts" } });
  expect(await emit("tool_call", { toolName: "bash" })).toMatchObject({ block: true });
  expect(await emit("tool_call", { toolName: "deploy" })).toBeUndefined();
  await emit("session_start");
  await heard("another extension has taken bash: calls are blocked");
});

test("every tool of pi's is overridden, and active only where pi's would be", () => {
  const { tools } = pi();
  expect([...tools.keys()].sort()).toEqual([...SEVEN, "powershell"].sort());
  for (const tool of tools.values()) {
    expect(tool.defaultActive).toBe(false);
    expect(tool.promptSnippet).toBeTruthy();
  }
});

test("without an interface a session that has no network says so on stderr", async () => {
  const told = errors();
  const { emit, call } = pi({}, { hasUI: false, denied: 0 });
  await emit("session_start");
  await call("read", { path: "a.txt" });
  expect(told()).toContain("aisb: tools run in sandbox 3f2a19bc: no network; hosts are allowed by: pi --sandbox-allow HOST\n");
});

test.each([
  ["no network", "", "evil.test", "this session has no network, which stays so: it takes a new session: pi --sandbox-allow 'evil.test'"],
  ["an address", "gate", "192.0.2.1", "not allowed: nothing is opened by that: pi --sandbox-allow 192.0.2.1"],
  ["a rule", "gate", "GET evil.test/x", "GET evil.test/x takes a session of its own: start pi with --sandbox-allow 'GET evil.test/x'"],
])("without an interface /sandbox-allow says the same of what cannot be: %s", async (_name, mode, entry, words) => {
  const told = errors();
  const { emit, command, asked } = pi({}, { hasUI: false, answer: true, mode });
  await emit("session_start");
  await command("sandbox-allow", entry);
  expect(told()).toContain(`aisb: ${words}\n`);
  expect([told().includes("nobody can be asked"), asked]).toEqual([false, []]);
});

test("without an interface a session that has a list says nothing of it", async () => {
  const told = errors();
  const { emit, call } = pi({}, { hasUI: false, mode: "gate", denied: 0 });
  await emit("session_start");
  await call("read", { path: "a.txt" });
  expect(told()).not.toContain("tools run in");
});

test("without an interface warnings go to stderr, and nobody is asked", async () => {
  const told = errors();
  const { emit, asked, command, said } = pi({}, { hasUI: false, answer: true, mode: "gate" });
  await emit("session_start");
  const denied = "aisb: denied evil.test:443: no entry covers this host; to allow it: --sandbox-allow 'evil.test', for a new session\n";
  await vi.waitFor(() => expect(told()).toContain(denied), 10_000);
  await command("sandbox-allow", "evil.test");
  expect(told()).toContain("aisb: /sandbox-allow asks, and nobody can be asked here: use --sandbox-allow 'evil.test' at the start\n");
  expect([asked, said]).toEqual([[], []]);
});
