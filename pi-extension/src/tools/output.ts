/** The output of a search, held up to a cap: what is beyond it is not shown anyway. */

import type { Ended } from "../commands.ts";

const MOST_BYTES = 16 * 1_048_576;
const MOST_WORDS_BYTES = 8_192;

export class Output {
  readonly #out: Buffer[] = [];
  readonly #err: Buffer[] = [];
  #outBytes = 0;
  #errBytes = 0;

  readonly sinks = {
    onStdout: (bytes: Buffer) => {
      this.#outBytes += bytes.length;
      if (this.#outBytes <= MOST_BYTES) this.#out.push(bytes);
    },
    onStderr: (bytes: Buffer) => {
      this.#errBytes += bytes.length;
      if (this.#errBytes <= MOST_WORDS_BYTES) this.#err.push(bytes);
    },
  };

  lines(): string[] {
    return Buffer.concat(this.#out).toString("utf8").split("\n");
  }

  get errors(): string {
    return Buffer.concat(this.#err).toString("utf8").trim();
  }
}

/** Throws what the program said, where its exit code is none of these. */
export function needSuccess(program: string, ended: Ended, output: Output, codes: readonly number[]): void {
  if (ended.exitCode !== null && codes.includes(ended.exitCode)) return;
  throw new Error(output.errors || `${program} ended with exit code ${ended.exitCode}`);
}
