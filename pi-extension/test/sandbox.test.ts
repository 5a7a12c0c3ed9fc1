import { expect, test } from "vitest";

import { isCovered } from "../src/allow.ts";
import { NoSandboxError } from "../src/errors.ts";
import { Sandbox, type Denial, type State } from "../src/sandbox.ts";
import { denialLine, footer, statusLines } from "../src/status.ts";
import { type FakeSession, fakeSession } from "./fake-server.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));
const turns = async () => {
  for (let left = 0; left < 5; left++) await turn();
};

function made(count = 2) {
  const sessions: FakeSession[] = Array.from({ length: count }, fakeSession);
  const states: State[] = [];
  const denials: Denial[] = [];
  const allowed: string[] = [];
  const lost: string[] = [];
  const again: (readonly string[])[][] = [];
  let started = 0;
  const start = () => {
    const session = sessions[started++];
    if (!session) throw new Error("started too often");
    return session;
  };
  const sandbox = new Sandbox(start, {
    onState: (state) => states.push(state),
    onDenied: (denial) => denials.push(denial),
    onAllowed: (destination) => allowed.push(destination),
    onGateLost: (message) => lost.push(message),
    onAllowedAgain: (now, gone) => again.push([now, gone]),
  });
  const [first, second] = sessions as [FakeSession, FakeSession];
  return { sandbox, first, second, states, denials, allowed, lost, again, started: () => started };
}

test("before it is started, and after its end, nothing is executed", async () => {
  const { sandbox, first } = made();
  await expect(sandbox.call("exec", {})).rejects.toBeInstanceOf(NoSandboxError);
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  await sandbox.end();
  expect(first.isStopped).toBe(true);
  await expect(sandbox.call("exec", {})).rejects.toBeInstanceOf(NoSandboxError);
  expect(first.server.requests).toEqual([]);
});

test("what was denied last is told at the end, and nothing else is heard", async () => {
  const { sandbox, first, states, denials } = made();
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  first.stop = async () => {
    first.server.notify("denied", { host: "evil.test", port: 0, message: "no" });
    first.server.notify("sandbox", { state: "restarting", reason: "killed" });
    first.server.hello();
    await turns();
    first.die("exit code 0");
    await turns();
  };
  await sandbox.end();
  expect(denials.map(({ host, port }) => [host, port])).toEqual([["evil.test", undefined]]);
  expect(states).toEqual(["starting", "ready", "off"]);
});

test("what was allowed since is counted, and told apart from what takes a session of its own", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello({ policy: { net: "allow", allow: [], rules: ["GET a.test/x"], gate: "7f3c1a902b44" } });
  await sandbox.ready();
  expect(footer(sandbox, 0)).toBe("sandbox 3f2a19bc: 1 rule allowed");
  first.server.handlers.set("allow", ({ id }, server) => server.answer(id, { entries: ["b.test"] }));
  await sandbox.allow("b.test");
  expect(footer(sandbox, 0)).toBe("sandbox 3f2a19bc: 1 entry and 1 rule allowed");
  expect(statusLines(sandbox, undefined, [], true)).toContain("  b.test (until this session ends)");
  const denial = { time: "", host: "a.test", port: 80, message: "no", entry: "POST a.test/it's", closed: undefined };
  expect(denialLine(denial, true)).toBe("a.test:80: no; to allow it: --sandbox-allow 'POST a.test/it'\\''s', for a new session");
});

test("of a denial that was allowed since the status says so, and names no way any more", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello({ policy: { net: "allow", allow: [], rules: ["GET r.test/x"], gate: "g" } });
  for (const [host, port, entry] of [["a.b.test", 443, "a.b.test"], ["a.b.test", 8443, "a.b.test:8443"], ["r.test", 443, "POST r.test/x"]] as const) {
    first.server.notify("denied", { host, port, message: "no", entry });
  }
  await sandbox.ready();
  await sandbox.allow("b.test");
  await sandbox.allow("r.test");
  expect(statusLines(sandbox, undefined, [], true).filter((line) => line.includes(": no;"))).toEqual([
    "  a.b.test:443: no; allowed since",
    "  a.b.test:8443: no; to allow it: /sandbox-allow a.b.test:8443",
    "  r.test:443: no; to allow it: --sandbox-allow 'POST r.test/x', for a new session",
  ]);
});

test.each([
  ["evil.test", 443, "evil.test", true],
  ["a.evil.test", 80, "evil.test", true],
  ["a.evil.test", undefined, "evil.test:99", true],
  ["evil.test", 99, "evil.test:98,evil.test:99", true],
  ["evil.test", 99, "evil.test", false],
  ["notevil.test", 443, "evil.test", false],
  ["a.evil.test", 443, "exact:evil.test", false],
  ["evil.test", 443, "below:evil.test", false],
  ["a.evil.test", 443, "below:evil.test", true],
])("%s at %s is opened by %s: %s", (host, port, entry, is) => {
  expect(isCovered(host, port, ["other.test", entry])).toBe(is);
});

test("an address takes a session of its own", () => {
  const denial = (host: string, entry: string) => denialLine({ time: "", host, port: 443, message: "no", entry, closed: undefined }, true);
  expect([denial("192.0.2.1", "192.0.2.1:443"), denial("2001:db8::1", "[2001:db8::1]:443"), denial("1.a.test", "1.a.test")]).toEqual([
    "192.0.2.1:443: no; to allow it: --sandbox-allow '192.0.2.1:443', for a new session",
    "2001:db8::1:443: no; to allow it: --sandbox-allow '[2001:db8::1]:443', for a new session",
    "1.a.test:443: no; to allow it: /sandbox-allow 1.a.test",
  ]);
});

test("an aisb that cannot look at an entry alone refuses it when it is to allow it", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello();
  first.server.handlers.set("allow", ({ id, params }, server) => {
    if ("check" in params) server.refuse(id, -32602, "there is no 'check' here");
    else server.answer(id, { entries: [params["entry"]] });
  });
  expect(await sandbox.check("a.test")).toEqual({ opened: ["a.test"], note: undefined });
  expect(await sandbox.allow("a.test")).toEqual({ opened: ["a.test"], note: undefined });
  first.server.handlers.set("allow", ({ id }, server) => server.refuse(id, -32020, "no"));
  await expect(sandbox.check("a.test")).rejects.toMatchObject({ rpcCode: -32020 });
});

const POLICY = { net: "allow", allow: ["evil.test", "llm.test"], gate: "g" };

/** What was asked of the gate, in a session's order. */
const asked = ({ server }: FakeSession) => server.requests.filter(({ method }) => method === "allow").map(({ params }) => params["entry"]);

test("in a sandbox that is started again nothing is closed that was in the first one", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello({ policy: POLICY }).notify("denied", { host: "evil.test", port: 443, message: "closed", entry: null, closed: "evil.test" });
  await turns();
  expect(sandbox.open).toEqual(["llm.test"]);
  first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  first.server.again({ run: "22222222", policy: POLICY });
  await turns();
  expect(sandbox.open).toEqual(["evil.test", "llm.test"]);
});

test.each(["container", "aisb"])("what the user has agreed to is allowed again, before anything else is done: %s", async (victim) => {
  const { sandbox, first, second, again, states } = made();
  sandbox.begin(false);
  first.server.hello({ policy: POLICY });
  await sandbox.allow("a.test");
  await sandbox.allow("b.test:99");
  first.server.notify("opened", { entries: ["a.test", "said-elsewhere.test", "b.test:99"] });
  await turns();
  const call = async () => sandbox.call("exec", { command: ["x"] });
  if (victim === "container") first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  else first.die("ended by SIGKILL");
  await turns();
  const waiting = call();
  const later = victim === "container" ? first : second;
  const before = later.server.requests.length;
  if (victim === "container") first.server.again({ run: "22222222", policy: POLICY });
  else second.server.hello({ run: "22222222", policy: POLICY });
  await waiting;
  expect(later.server.requests.slice(before).map(({ method, params }) => [method, params["entry"]])).toEqual([
    ["allow", "a.test"],
    ["allow", "b.test:99"],
    ["exec", undefined],
  ]);
  expect([...sandbox.added]).toEqual(["a.test", "b.test:99"]);
  expect(again).toEqual([[["a.test", "b.test:99"], []]]);
  expect(states).toEqual(["starting", "ready", "restarting", "ready"]);
});

test("nothing is allowed again that aisb does not say to hold, or that the user has taken back", async () => {
  const { sandbox, first, again } = made();
  sandbox.begin(false);
  first.server.hello({ policy: POLICY });
  for (const entry of ["untold.test", "taken-back.test", "closed.test", "refused.test"]) await sandbox.allow(entry);
  const told = ["taken-back.test", "closed.test", "refused.test"];
  first.server.notify("opened", { entries: told }).notify("opened", { entries: ["closed.test", "refused.test", "other.test"] });
  first.server.notify("denied", { host: "closed.test", port: 443, message: "closed", entry: null, closed: "closed.test" });
  await turns();
  const before = asked(first).length;
  first.server.handlers.set("allow", ({ id }, server) => server.refuse(id, -32020, "no"));
  first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  first.server.again({ run: "22222222", policy: POLICY });
  await sandbox.ready();
  expect(asked(first).slice(before)).toEqual(["refused.test"]);
  expect([...sandbox.added]).toEqual([]);
  expect(again).toEqual([[[], ["untold.test", "refused.test"]]]);
});

test("what was agreed to in one session is not allowed in the next", async () => {
  const { sandbox, first, second } = made();
  sandbox.begin(false);
  first.server.hello({ policy: POLICY });
  await sandbox.allow("a.test");
  first.server.notify("opened", { entries: ["a.test"] });
  await turns();
  await sandbox.end();
  sandbox.begin(false);
  second.server.hello({ policy: POLICY });
  await sandbox.ready();
  expect([asked(second), [...sandbox.added]]).toEqual([[], []]);
});

test("a sandbox that dies while it is allowed something again is not taken for ready", async () => {
  const { sandbox, first, again } = made();
  sandbox.begin(false);
  first.server.hello({ policy: POLICY });
  await sandbox.allow("a.test");
  first.server.notify("opened", { entries: ["a.test"] });
  await turns();
  first.server.handlers.set("allow", ({ id }, server) => {
    server.notify("sandbox", { state: "dead", reason: "killed again" });
    server.answer(id, { entries: ["a.test"], opened: ["a.test"] });
  });
  first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  first.server.again({ run: "22222222", policy: POLICY });
  await expect(sandbox.ready()).rejects.toThrow("killed again");
  await turns();
  expect([sandbox.state, again]).toEqual(["dead", []]);
});

test("nothing is sent before hello; then what waited is carried out", async () => {
  const { sandbox, first, states } = made();
  sandbox.begin(false);
  const call = sandbox.call("exec", { command: ["x"] });
  await turns();
  expect(first.server.requests).toEqual([]);
  first.server.hello();
  expect((await call).result["exitCode"]).toBe(0);
  expect(states).toEqual(["starting", "ready"]);
});

test("who waits for a sandbox can be aborted", async () => {
  const { sandbox } = made();
  sandbox.begin(false);
  const stop = new AbortController();
  const call = sandbox.call("exec", {}, { signal: stop.signal });
  stop.abort();
  await expect(call).rejects.toMatchObject({ rpcCode: -32003 });
});

test("aisb says why there is none: calls fail with its words", async () => {
  const { sandbox, first, states } = made();
  sandbox.begin(false);
  first.server.notify("failed", { exitCode: 78, message: "the policy is not trusted", hint: "aisb trust" });
  first.die("exit code 78");
  await expect(sandbox.call("exec", {})).rejects.toThrow("nothing was run: the policy is not trusted (aisb trust)");
  await turns();
  expect(states).toEqual(["starting", "dead"]);
});

test("aisb ends without a word on the pipe: its last words on stderr are the reason", async () => {
  const { sandbox, first, started } = made();
  sandbox.begin(false);
  first.said.push("aisb: note: something", "aisb: podman is not installed", "aisb:   apt-get install podman");
  first.die();
  await expect(sandbox.ready()).rejects.toThrow("podman is not installed (apt-get install podman)");
  expect(started()).toBe(1);
});

test("of several steps that aisb advises those are passed on that pi's user can take", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.said.push("aisb: nothing is allowed", "aisb:   start one with: aisb --allow a.test", "aisb:   or, without it: --no-pi-config");
  first.die();
  await expect(sandbox.ready()).rejects.toThrow(/: nothing is allowed \(start one with: pi --sandbox-allow a\.test\)$/);
});

test("a program that cannot be started is the reason", async () => {
  const { sandbox } = made(0);
  sandbox.begin(false);
  await expect(sandbox.ready()).rejects.toThrow("started too often");
});

test("a container that died is waited for", async () => {
  const { sandbox, first, states } = made();
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  await turns();
  const call = sandbox.call("exec", { command: ["x"] });
  await turns();
  expect(first.server.requests).toEqual([]);
  first.server.again({ run: "22222222" });
  await call;
  expect(sandbox.hello?.run).toBe("22222222");
  first.server.notify("sandbox", { state: "dead", reason: "killed again" });
  await turns();
  await expect(sandbox.call("exec", {})).rejects.toThrow("killed again");
  const status = (canAsk: boolean) => statusLines(sandbox, undefined, [], canAsk)[0];
  expect([status(true), status(false)]).toEqual([
    "sandbox: dead (killed again; a new session has a new one: /new or /reload)",
    "sandbox: dead (killed again)",
  ]);
  expect(states).toEqual(["starting", "ready", "restarting", "ready", "dead"]);
});

test("a gate that ended is told, and one that is started again has another", async () => {
  const { sandbox, first, lost } = made();
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  expect(footer(sandbox, 0)).toBe("sandbox 3f2a19bc: no network");
  first.server.notify("gate", { state: "ended", message: "the gate\u001b[2J has ended" });
  await turns();
  expect(lost).toEqual(["the gate[2J has ended"]);
  expect(footer(sandbox, 0)).toBe("sandbox 3f2a19bc: no network, its gate has ended");
  expect(statusLines(sandbox, undefined, [], true).filter((line) => line.startsWith("gate:"))).toHaveLength(1);
  first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  first.server.again({ run: "22222222" });
  await turns();
  expect(footer(sandbox, 0)).toBe("sandbox 22222222: no network");
});

test("what came between a container's end and the news of it is sent again: nothing was done", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  let times = 0;
  first.server.handlers.set("exec", ({ id }, server) => {
    times++;
    if (times > 1) return server.answer(id, { exitCode: 0 });
    server.notify("sandbox", { state: "restarting", reason: "killed" });
    server.refuse(id, -32002, "there is no sandbox");
    server.notify("sandbox", { state: "ready", reason: "" });
  });
  expect((await sandbox.call("exec", {})).result["exitCode"]).toBe(0);
});

test("what comes before the news of a container's end waits for it, however long that takes", async () => {
  const { sandbox, first, states } = made();
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  let isThere = false;
  first.server.handlers.set("exec", ({ id }, server) => {
    if (isThere) server.answer(id, { exitCode: 0 });
    else server.refuse(id, -32002, "there is no sandbox");
  });
  const call = sandbox.call("exec", { command: ["x"] });
  const stop = new AbortController();
  const aborted = sandbox.call("exec", { command: ["x"] }, { signal: stop.signal });
  await turns();
  stop.abort();
  await expect(aborted).rejects.toMatchObject({ rpcCode: -32003 });
  isThere = true;
  first.server.notify("sandbox", { state: "restarting", reason: "killed" });
  first.server.again({ run: "22222222" });
  expect((await call).result["exitCode"]).toBe(0);
  expect(states).toEqual(["starting", "ready", "restarting", "ready"]);
});

test("what a dying sandbox may have done in part is not done again", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  first.server.handlers.set("exec", ({ id }, server) => server.refuse(id, -32001, "the sandbox died"));
  await expect(sandbox.call("exec", {})).rejects.toMatchObject({ rpcCode: -32001 });
  expect(first.server.requests).toHaveLength(1);
});

test("aisb itself is started once more, and no more than that", async () => {
  const { sandbox, first, second, states, started } = made(3);
  sandbox.begin(false);
  first.server.hello();
  await sandbox.ready();
  first.die("ended by SIGKILL");
  await turns();
  second.server.hello({ run: "22222222" });
  expect((await sandbox.ready()).run).toBe("22222222");
  second.die("ended by SIGKILL");
  await turns();
  await expect(sandbox.call("exec", {})).rejects.toBeInstanceOf(NoSandboxError);
  expect(started()).toBe(2);
  expect(states).toEqual(["starting", "ready", "restarting", "ready", "restarting", "dead"]);
});

test.each([
  ["another version", { protocol: 2 }, "version 2"],
  ["no home", { home: null }, "a hello without home"],
])("a hello that is none ends it: %s", async (_name, changes, words) => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.hello(changes);
  await expect(sandbox.ready()).rejects.toThrow(words);
  expect(first.isStopped).toBe(true);
});

test("anything before hello ends it", async () => {
  const { sandbox, first } = made();
  sandbox.begin(false);
  first.server.notify("denied", { host: "x" });
  await expect(sandbox.ready()).rejects.toThrow("denied before hello");
});

test("a denial comes with what would allow it, and with nothing that steers a terminal", async () => {
  const { sandbox, first, denials } = made();
  sandbox.begin(false);
  first.server.hello().notify("denied", {
    time: "t",
    host: "evil\u001b[2J.test",
    port: 443,
    message: "no entry\nof the policy",
    entry: "evil.test",
  });
  await sandbox.ready();
  await turns();
  expect(denials).toEqual([{ time: "t", host: "evil[2J.test", port: 443, message: "no entry of the policy", entry: "evil.test" }]);
  expect(sandbox.denials).toEqual(denials);
});

test("what is let through is asked for only where it is wanted", async () => {
  const { sandbox, first, allowed } = made();
  sandbox.begin(true);
  first.server.handlers.set("watch", ({ id }, server) => {
    server.answer(id, {});
    server.notify("allowed", { host: "a.test", port: 443, method: "GET", path: "/x" });
  });
  first.server.hello();
  await sandbox.ready();
  await turns();
  expect(first.server.requests.map(({ method, params }) => [method, params])).toEqual([["watch", { allowed: true }]]);
  expect(allowed).toEqual(["a.test:443 GET /x"]);
});

test("what the user has closed is said to be closed, and counts no longer", async () => {
  const { sandbox, first, denials } = made();
  sandbox.begin(false);
  first.server.hello({ policy: { net: "allow", allow: ["evil.test", "llm.test"], gate: "g" } });
  await sandbox.ready();
  await sandbox.allow("more.test");
  expect(footer(sandbox, 0)).toBe("sandbox 3f2a19bc: 3 entries allowed");
  for (const closed of ["evil.test", "more.test"]) {
    first.server.notify("denied", { time: "t", host: closed, port: 443, message: "the user has closed it for this run", entry: null, closed });
  }
  await turns();
  expect(denials.map((denial) => denialLine(denial, true))).toEqual([
    "evil.test:443: the user has closed it for this run",
    "more.test:443: the user has closed it for this run",
  ]);
  expect(footer(sandbox, 2)).toBe("sandbox 3f2a19bc: 1 entry allowed, 2 requests denied");
  expect(statusLines(sandbox, undefined, [], true)).toContain("network: 1 entry allowed");
  await sandbox.allow("evil.test");
  expect(sandbox.open).toEqual(["llm.test"]);
  expect(footer(sandbox, 2)).toBe("sandbox 3f2a19bc: 2 entries allowed, 2 requests denied");
});
