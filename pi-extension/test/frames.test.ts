import { expect, test } from "vitest";

import { encodeFrame, FrameReader, MOST_BYTES, ProtocolError } from "../src/frames.ts";

const HEADER = { jsonrpc: "2.0", id: 1, method: "x", params: { name: "ü\udc80" } };

function raw(header: string | Buffer, body = Buffer.alloc(0)): Buffer {
  const text = Buffer.from(header);
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(text.length, 0);
  lengths.writeUInt32BE(body.length, 4);
  return Buffer.concat([lengths, text, body]);
}

test("frames come out as they went in, however the bytes are cut", () => {
  const body = Buffer.from([0, 255, 10, 13]);
  const bytes = Buffer.concat([encodeFrame(HEADER, body), encodeFrame(HEADER), encodeFrame(HEADER, body)]);
  for (const step of [1, 2, 3, 7, 8, 9, bytes.length]) {
    const reader = new FrameReader();
    const frames = [];
    for (let at = 0; at < bytes.length; at += step) frames.push(...reader.push(bytes.subarray(at, at + step)));
    expect(frames.map((frame) => frame.header)).toEqual([HEADER, HEADER, HEADER]);
    expect(frames.map((frame) => frame.body)).toEqual([body, Buffer.alloc(0), body]);
    expect(reader.isBetweenFrames).toBe(true);
  }
});

test("a frame that has only begun is none", () => {
  const reader = new FrameReader();
  expect(reader.push(encodeFrame(HEADER).subarray(0, -1))).toEqual([]);
  expect(reader.isBetweenFrames).toBe(false);
});

test.each([
  ["a header that is too long", Buffer.from([0, 16, 0, 1, 0, 0, 0, 0])],
  ["a body that is too long", Buffer.from([0, 0, 0, 2, 0, 16, 0, 1])],
  ["no header", Buffer.from([0, 0, 0, 0, 0, 0, 0, 0])],
  ["no JSON", raw("{")],
  ["no UTF-8", raw(Buffer.from([0x22, 0xff, 0x22]))],
  ["a list", raw('[{"jsonrpc": "2.0"}]')],
  ["another version", raw('{"jsonrpc": "1.0"}')],
  ["NaN", raw('{"jsonrpc": "2.0", "id": NaN}')],
  ["nested too deep", raw(`{"jsonrpc": "2.0", "x": ${"[".repeat(16)}${"]".repeat(16)}}`)],
])("refused: %s", (_name, bytes) => {
  expect(() => new FrameReader().push(bytes)).toThrow(ProtocolError);
});

test("no frame is made that the other side would refuse", () => {
  expect(() => encodeFrame(HEADER, Buffer.alloc(MOST_BYTES))).not.toThrow();
  expect(() => encodeFrame(HEADER, Buffer.alloc(MOST_BYTES + 1))).toThrow(RangeError);
  expect(() => encodeFrame({ ...HEADER, x: "x".repeat(MOST_BYTES) })).toThrow(RangeError);
});
