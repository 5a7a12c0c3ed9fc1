/** The type of an image by its first bytes: those that pi sends to models. */

export const SNIFFED_BYTES = 4100;
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const JPEG = Buffer.from([0xff, 0xd8, 0xff]);
// A JPEG-LS file begins like a JPEG, and no model reads it.
const JPEG_LS = 0xf7;
const BITMAP_PLANES_AT = { 12: 22 } as const;

export function imageType(head: Buffer): string | null {
  if (begins(head, JPEG)) return head[3] === JPEG_LS ? null : "image/jpeg";
  if (begins(head, PNG)) return isStillPng(head) ? "image/png" : null;
  if (begins(head, Buffer.from("GIF87a")) || begins(head, Buffer.from("GIF89a"))) return "image/gif";
  if (begins(head, Buffer.from("RIFF")) && begins(head.subarray(8), Buffer.from("WEBP"))) return "image/webp";
  return isBitmap(head) ? "image/bmp" : null;
}

function begins(bytes: Buffer, start: Buffer): boolean {
  return bytes.length >= start.length && bytes.subarray(0, start.length).equals(start);
}

/** Animated ones are text to pi: no model takes them. */
function isStillPng(head: Buffer): boolean {
  if (head.length < 16 || head.readUInt32BE(8) !== 13 || head.toString("latin1", 12, 16) !== "IHDR") return false;
  for (let at = 8; at + 8 <= head.length; at += head.readUInt32BE(at) + 12) {
    const name = head.toString("latin1", at + 4, at + 8);
    if (name === "acTL") return false;
    if (name === "IDAT") return true;
  }
  return true;
}

function isBitmap(head: Buffer): boolean {
  if (head.length < 32 || head.toString("latin1", 0, 2) !== "BM") return false;
  const headerBytes = head.readUInt32LE(14);
  if (headerBytes !== 12 && (headerBytes < 40 || headerBytes > 124)) return false;
  const at = headerBytes === 12 ? BITMAP_PLANES_AT[12] : 26;
  return head.readUInt16LE(at) === 1 && [1, 4, 8, 16, 24, 32].includes(head.readUInt16LE(at + 2));
}
