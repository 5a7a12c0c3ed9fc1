/** Text for a person. What came out of the sandbox may hold what steers a terminal: it is taken out. */

// C0 but tab and line feed, DEL, C1, and what turns the direction of a line.
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const LONGEST = 500;

/** The same text, in lines as it is. */
export function harmless(text: string): string {
  return text.replace(STEERING, "");
}

/** One line, of bounded length, without anything that steers a terminal. */
export function oneLine(text: string, longest = LONGEST): string {
  const flat = harmless(text).replace(/\s*\n\s*/g, " ");
  return flat.length > longest ? `${flat.slice(0, longest)}…` : flat;
}

/** `1 thing`, `2 things`. */
/** A text as one word of a shell's command. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** `3 h 2 min`, `4 min 5 s`, `6 s`. */
export function duration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
