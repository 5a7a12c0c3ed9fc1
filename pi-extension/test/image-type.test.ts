import { expect, test } from "vitest";

import { imageType } from "../src/image-type.ts";

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function chunk(name: string, length = 0): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(length, 0);
  head.write(name, 4, "latin1");
  return Buffer.concat([head, Buffer.alloc(length + 4)]);
}

function bitmap(header: number, planes = 1, bits = 24): Buffer {
  const bytes = Buffer.alloc(64);
  bytes.write("BM");
  bytes.writeUInt32LE(header, 14);
  const at = header === 12 ? 22 : 26;
  bytes.writeUInt16LE(planes, at);
  bytes.writeUInt16LE(bits, at + 2);
  return bytes;
}

test.each<[string, Buffer, string | null]>([
  ["JPEG", Buffer.from([0xff, 0xd8, 0xff, 0xe0]), "image/jpeg"],
  ["JPEG-LS", Buffer.from([0xff, 0xd8, 0xff, 0xf7]), null],
  ["PNG", Buffer.concat([PNG, chunk("IHDR", 13), chunk("IDAT", 4)]), "image/png"],
  ["animated PNG", Buffer.concat([PNG, chunk("IHDR", 13), chunk("acTL", 8), chunk("IDAT", 4)]), null],
  ["a PNG's first bytes alone", PNG, null],
  ["GIF", Buffer.from("GIF89a..."), "image/gif"],
  ["WebP", Buffer.from("RIFF....WEBPVP8 "), "image/webp"],
  ["a sound", Buffer.from("RIFF....WAVEfmt "), null],
  ["bitmap", bitmap(40), "image/bmp"],
  ["old bitmap", bitmap(12), "image/bmp"],
  ["text that begins as a bitmap", Buffer.from("BM is how this text of more than thirty bytes begins"), null],
  ["text", Buffer.from("hello"), null],
  ["nothing", Buffer.alloc(0), null],
])("%s", (_name, bytes, type) => {
  expect(imageType(bytes)).toBe(type);
});
