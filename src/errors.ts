/**
 * Every code that evenkeel's errors can have, a closed and stable list. `docs/reference/errors.md` says what each means and what to do
 * about it.
 *
 * - `EVENKEEL_NO_ENDPOINTS`: the Service is known to have no usable endpoint.
 * - `EVENKEEL_NOT_READY`: endpoints exist or may exist, but none could take the call within the waiting time.
 * - `EVENKEEL_QUEUE_FULL`: too many callers are already waiting.
 * - `EVENKEEL_OVERLOAD`: as many calls run as the `limit` allows, and too many wait.
 * - `EVENKEEL_TOO_LATE`: while the call waited for the `limit`, less was left of its deadline than an answer takes.
 * - `EVENKEEL_DEADLINE`: an operation with its own deadline did not finish in time.
 * - `EVENKEEL_CONNECT`: no connection to an endpoint could be opened.
 * - `EVENKEEL_RESOLVE`: the endpoints could not be determined.
 * - `EVENKEEL_FORBIDDEN`: the Kubernetes API denies a permission; the message names verb and resource.
 * - `EVENKEEL_PORT_AMBIGUOUS`: a port number matches several ports of the Service; the message lists their names.
 * - `EVENKEEL_CLOSED`: the balancer was closed.
 * - `EVENKEEL_OPTION`: an option or target string is invalid; the message names the option and the invalid value.
 */
export const errorCodes = [
  'EVENKEEL_NO_ENDPOINTS',
  'EVENKEEL_NOT_READY',
  'EVENKEEL_QUEUE_FULL',
  'EVENKEEL_OVERLOAD',
  'EVENKEEL_TOO_LATE',
  'EVENKEEL_DEADLINE',
  'EVENKEEL_CONNECT',
  'EVENKEEL_RESOLVE',
  'EVENKEEL_FORBIDDEN',
  'EVENKEEL_PORT_AMBIGUOUS',
  'EVENKEEL_CLOSED',
  'EVENKEEL_OPTION',
] as const;

/** The type of a code in `errorCodes`. */
export type ErrorCode = (typeof errorCodes)[number];

// A registered symbol, so that two copies of evenkeel in one process recognize each other's errors.
const brand: unique symbol = Symbol.for('evenkeel.error') as never;

/** What an `EvenkeelError` may carry besides its code and message. */
export interface EvenkeelErrorDetails {
  /** The underlying error. */
  readonly cause?: unknown | undefined;
  /** The endpoint at which the error happened, as `address:port`. */
  readonly endpoint?: string | undefined;
}

/** The base class of all errors evenkeel throws. Check `code` to tell them apart. */
export class EvenkeelError extends Error {
  /** What went wrong, as a code that stays the same across versions: see docs/reference/errors.md. */
  readonly code: ErrorCode;
  /** The endpoint at which the error happened, as `address:port`; `undefined` if the error is about no single endpoint. */
  readonly endpoint: string | undefined;

  constructor(code: ErrorCode, message: string, details: EvenkeelErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'EvenkeelError';
    this.code = code;
    this.endpoint = details.endpoint;
    Object.defineProperty(this, brand, { value: true });
  }
}

/** Whether `value` is an error of evenkeel, or of another copy of evenkeel; with `code`, whether it also has that code. */
export function isEvenkeelError<Code extends ErrorCode = ErrorCode>(
  value: unknown,
  code?: Code,
): value is EvenkeelError & { readonly code: Code } {
  if (typeof value !== 'object' || value === null || (value as { [brand]?: unknown })[brand] !== true) return false;
  return code === undefined || (value as EvenkeelError).code === code;
}

/** Why a resolver could not determine which endpoints exist. */
export class ResolveError extends EvenkeelError {
  /** True if retrying cannot help until somebody changes something, such as a permission, a name or an option. */
  readonly permanent: boolean;

  constructor(
    message: string,
    details: EvenkeelErrorDetails & {
      readonly code?: 'EVENKEEL_RESOLVE' | 'EVENKEEL_FORBIDDEN' | 'EVENKEEL_PORT_AMBIGUOUS';
      readonly permanent?: boolean;
    } = {},
  ) {
    super(details.code ?? 'EVENKEEL_RESOLVE', message, details);
    this.name = 'ResolveError';
    this.permanent = details.permanent ?? false;
  }
}

/** Whether `value` is an error of a resolver of evenkeel, or of another copy of evenkeel. */
export function isResolveError(value: unknown): value is ResolveError {
  return isEvenkeelError(value) && value.name === 'ResolveError';
}

/** Converts any thrown value to an Error. */
export function asError(value: unknown): Error {
  // An `instanceof` check is not enough: test runners and vm contexts have their own Error.
  if (value instanceof Error || Object.prototype.toString.call(value) === '[object Error]') return value as Error;
  return new Error(typeof value === 'string' ? value : `not an Error: ${typeof value}`, { cause: value });
}
