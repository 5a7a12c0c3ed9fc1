/** What a call to the sandbox can end in, other than with its result. */

export const GONE_IN_BETWEEN = -32001;
export const WRONG_PARAMS = -32602;
export const NO_SANDBOX = -32002;
export const CANCELLED = -32003;
export const TOO_MANY = -32000;
export const SYSTEM_CALL_FAILED = -32010;
export const REFUSED = -32020;

const NAME_OF_ERROR = /^E[A-Z0-9]{1,20}$/;

/** There is no sandbox, so nothing was carried out, here or there. */
export class NoSandboxError extends Error {
  override name = "NoSandboxError";

  constructor(reason: string) {
    super(`There is no sandbox, so nothing was run: ${reason}`);
  }
}

/** An answer that is an error. `errnoCode` is the system's name for it (ENOENT) where a system call failed. */
export class CallError extends Error {
  override name = "CallError";
  readonly rpcCode: number;
  /** Named as Node names it: pi shows it. Left out where no system call failed. */
  readonly code?: string;
  readonly hint: string | undefined;

  constructor(rpcCode: number, message: string, data: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.rpcCode = rpcCode;
    if (typeof data["errno"] === "string") this.code = NAME_OF_ERROR.test(data["errno"]) ? data["errno"] : "EIO";
    this.hint = typeof data["hint"] === "string" && data["hint"] !== "" ? data["hint"] : undefined;
  }
}
