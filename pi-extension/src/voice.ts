/**
 * What the extension says: in pi's interface where there is one, else on stderr.
 *
 * pi's context is void once its session is replaced, while a sandbox may still have something to say: that is then lost.
 */

import type { ExtensionContext } from "@earendil-works/pi-coding-agent";

export type Weight = "info" | "warning" | "error";
const KEY = "ai-sandbox";

export class Voice {
  #ctx: ExtensionContext | undefined;

  /** Speaks through this session from now on. */
  attach(ctx: ExtensionContext): void {
    this.#ctx = ctx;
  }

  detach(): void {
    this.#ctx = undefined;
  }

  /** Whether somebody can be asked, and can type a command: neither in print nor in JSON mode. */
  get canAsk(): boolean {
    let can = false;
    this.#safely((ctx) => {
      can = ctx.hasUI;
    });
    return can;
  }

  say(message: string, weight: Weight): void {
    this.#safely((ctx) => {
      if (ctx.hasUI) ctx.ui.notify(message, weight);
      // Answers of print and JSON mode are on stdout; what is only of interest is not said beside them.
      else if (weight !== "info") process.stderr.write(`${prefixed(message)}\n`);
    });
  }

  /** As `say`, but also where there is no interface: it was asked for. */
  answer(message: string, weight: Weight): void {
    this.#safely((ctx) => {
      if (ctx.hasUI) ctx.ui.notify(message, weight);
      else process.stderr.write(`${prefixed(message)}\n`);
    });
  }

  footer(text: string | undefined): void {
    this.#safely((ctx) => ctx.ui.setStatus(KEY, text));
  }

  #safely(speak: (ctx: ExtensionContext) => void): void {
    if (!this.#ctx) return;
    try {
      speak(this.#ctx);
    } catch {
      this.#ctx = undefined;
    }
  }
}

function prefixed(message: string): string {
  return message.split("\n").map((line) => `aisb: ${line}`).join("\n");
}
