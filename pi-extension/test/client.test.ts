import { afterEach, expect, test, vi } from "vitest";

import { Client, type End } from "../src/client.ts";
import { CallError, NoSandboxError } from "../src/errors.ts";
import { MOST_BYTES } from "../src/frames.ts";
import { fakeSession, type Request } from "./fake-server.ts";

function connected() {
  const session = fakeSession();
  const notices: unknown[] = [];
  const ends: End[] = [];
  const client = new Client(session.input, session.output, (...notice) => notices.push(notice), (end) => ends.push(end));
  return { session, server: session.server, client, notices, ends };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

afterEach(() => {
  vi.useRealTimers();
});

test("answers find their requests in whatever order they come", async () => {
  const { server, client } = connected();
  const held: Request[] = [];
  server.handlers.set("hold", (request) => held.push(request));
  const calls = [1, 2, 3].map((n) => client.call("hold", { n }));
  await turn();
  for (const { id, params } of held.reverse()) server.answer(id, { n: params["n"] });
  expect((await Promise.all(calls)).map(({ result }) => result["n"])).toEqual([1, 2, 3]);
});

test("data comes before the answer, to the request that it is for", async () => {
  const { server, client } = connected();
  server.handlers.set("two", ({ id }) => {
    server.notify("data", { id, stream: "stdout" }, Buffer.from("a"));
    server.notify("data", { id: id + 100, stream: "stdout" }, Buffer.from("another's"));
    server.notify("data", { id, stream: "stderr" }, Buffer.from("b"));
    server.answer(id, {});
  });
  const seen: string[] = [];
  await client.call("two", {}, { onData: (stream, bytes) => seen.push(`${stream} ${bytes}`) });
  expect(seen).toEqual(["stdout a", "stderr b"]);
});

test("an error has its number, its errno and its hint", async () => {
  const { server, client } = connected();
  server.handlers.set("x", ({ id }) => server.refuse(id, -32010, "no", { errno: "EACCES", hint: "ask" }));
  await expect(client.call("x", {})).rejects.toMatchObject({ rpcCode: -32010, code: "EACCES", hint: "ask", message: "no" });
});

test("an abort sends a cancel, and the answer to it is the end", async () => {
  const { server, client } = connected();
  const stop = new AbortController();
  server.onCommand = async (command) => {
    await command.cancelled;
    command.end({ exitCode: null, signal: null, ended: "cancel" });
  };
  const call = client.call("exec", { command: ["sleep"] }, { signal: stop.signal });
  await turn();
  stop.abort();
  expect((await call).result["ended"]).toBe("cancel");
});

test("an abort that is not answered ends the call all the same", async () => {
  const { server, client } = connected();
  server.onCommand = () => undefined;
  const stop = new AbortController();
  const call = client.call("exec", { command: ["sleep"] }, { signal: stop.signal });
  const failed = expect(call).rejects.toMatchObject({ rpcCode: -32003 });
  await turn();
  vi.useFakeTimers();
  stop.abort();
  await vi.advanceTimersByTimeAsync(5_000);
  await failed;
});

test("what was aborted before it began is never sent", async () => {
  const { server, client } = connected();
  await expect(client.call("exec", {}, { signal: AbortSignal.abort() })).rejects.toBeInstanceOf(CallError);
  await turn();
  expect(server.requests).toEqual([]);
});

test("an upload is never more than the window ahead of what was taken", async () => {
  const { server, client } = connected();
  let most = 0;
  const total = 5 * MOST_BYTES + 17;
  let id = 0;
  server.handlers.set("put", (request) => {
    id = request.id;
  });
  async function* pieces() {
    for (let left = total; left > 0; left -= MOST_BYTES * 2) yield Buffer.alloc(Math.min(left, MOST_BYTES * 2));
  }
  const call = client.call("put", {}, { upload: pieces() });
  let taken = 0;
  // What is ahead a turn after the last was taken was sent into the room that there was.
  while (taken < total) {
    await turn();
    const sent = sentBytes(server.bodies);
    const ahead = sent - taken;
    most = Math.max(most, ahead);
    if (ahead > 0) {
      server.notify("taken", { id, bytes: ahead });
      taken = sent;
    }
  }
  await turn();
  server.answer(id, {});
  await call;
  expect(most).toBeLessThanOrEqual(MOST_BYTES);
  expect(server.notices.at(-1)).toEqual({ method: "data", params: { id, last: true } });
});

function sentBytes(bodies: readonly Buffer[]): number {
  return bodies.reduce((sum, body) => sum + body.length, 0);
}

test("the end of the stream fails what is open, and everything later", async () => {
  const { session, server, client, ends } = connected();
  server.onCommand = () => undefined;
  const call = client.call("exec", { command: ["x"] });
  await turn();
  session.die();
  await expect(call).rejects.toMatchObject({ rpcCode: -32001 });
  await expect(client.call("exec", {})).rejects.toBeInstanceOf(NoSandboxError);
  expect(ends).toEqual([{ reason: "the session has ended", isViolation: false }]);
});

test.each([
  ["a request of its own", { jsonrpc: "2.0", id: 1, method: "exec", params: {} }],
  ["an answer to nothing", { jsonrpc: "2.0", result: {} }],
  ["neither result nor error", { jsonrpc: "2.0", id: 1 }],
  ["data of no stream", { jsonrpc: "2.0", method: "data", params: { id: 1, stream: "other" } }],
  ["more taken than was sent", { jsonrpc: "2.0", method: "taken", params: { id: 1, bytes: 1 } }],
  ["a refusal of the session", { jsonrpc: "2.0", id: null, error: { code: -32600, message: "no" } }],
])("ends the session: %s", async (_name, header) => {
  const { server, client, ends } = connected();
  server.onCommand = () => undefined;
  const call = client.call("exec", { command: ["x"] });
  const failed = expect(call).rejects.toMatchObject({ rpcCode: -32001 });
  await turn();
  server.frame(header);
  await failed;
  expect(ends).toMatchObject([{ isViolation: true }]);
});

test("no more are open at once than the protocol allows; the rest waits its turn", async () => {
  const { server, client } = connected();
  const held: number[] = [];
  server.handlers.set("hold", ({ id }) => held.push(id));
  const calls = Array.from({ length: 250 }, () => client.call("hold", {}));
  await turn();
  expect(held.length).toBe(200);
  while (held.length > 0) {
    server.answer(held.shift() ?? 0, {});
    await turn();
  }
  expect(await Promise.all(calls)).toHaveLength(250);
});
