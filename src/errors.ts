/**
 * Every code evenkeel throws, a closed and stable list. What each means and what to do: `docs/reference/errors.md`.
 *
 * - `EVENKEEL_NO_ENDPOINTS`: the Service is known to have no usable endpoint.
 * - `EVENKEEL_NOT_READY`: endpoints exist or may exist, but none could take the call within the waiting time.
 * - `EVENKEEL_QUEUE_FULL`: more callers wait already than the waiting room holds.
 * - `EVENKEEL_DEADLINE`: an operation with a deadline of its own did not finish in time.
 * - `EVENKEEL_CONNECT`: no connection to an endpoint could be opened.
 * - `EVENKEEL_RESOLVE`: the endpoints could not be found out.
 * - `EVENKEEL_FORBIDDEN`: the Kubernetes API refuses us what we need; the message names verb and resource.
 * - `EVENKEEL_PORT_AMBIGUOUS`: a port number fits several ports of the Service; the message lists their names.
 * - `EVENKEEL_CLOSED`: the balancer was closed.
 * - `EVENKEEL_OPTION`: an option or target string is wrong; the message names it and the bad value.
 */
export const errorCodes = [
  'EVENKEEL_NO_ENDPOINTS',
  'EVENKEEL_NOT_READY',
  'EVENKEEL_QUEUE_FULL',
  'EVENKEEL_DEADLINE',
  'EVENKEEL_CONNECT',
  'EVENKEEL_RESOLVE',
  'EVENKEEL_FORBIDDEN',
  'EVENKEEL_PORT_AMBIGUOUS',
  'EVENKEEL_CLOSED',
  'EVENKEEL_OPTION',
] as const;

/** One of `errorCodes`. */
export type ErrorCode = (typeof errorCodes)[number];

// A registered symbol, so that two copies of evenkeel in one process recognise each other's errors.
const brand: unique symbol = Symbol.for('evenkeel.error') as never;

/** What an error may carry besides its message. */
export interface EvenkeelErrorDetails {
  /** What went wrong underneath. */
  readonly cause?: unknown | undefined;
  /** The endpoint concerned, as `address:port`. */
  readonly endpoint?: string | undefined;
}

/** The one base class of all errors evenkeel throws. Tell them apart by `code`. */
export class EvenkeelError extends Error {
  readonly code: ErrorCode;
  /** The endpoint concerned, as `address:port`; `undefined` when none is. */
  readonly endpoint: string | undefined;

  constructor(code: ErrorCode, message: string, details: EvenkeelErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'EvenkeelError';
    this.code = code;
    this.endpoint = details.endpoint;
    Object.defineProperty(this, brand, { value: true });
  }
}

/** True for errors of evenkeel, also of another copy of it; with `code`, only for that code. */
export function isEvenkeelError<Code extends ErrorCode = ErrorCode>(
  value: unknown,
  code?: Code,
): value is EvenkeelError & { readonly code: Code } {
  if (typeof value !== 'object' || value === null || (value as { [brand]?: unknown })[brand] !== true) return false;
  return code === undefined || (value as EvenkeelError).code === code;
}

/** Why a resolver could not say which endpoints exist. */
export class ResolveError extends EvenkeelError {
  /** True if retrying cannot help before somebody changes something (a permission, a name, an option). */
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

/** True for errors of resolvers, also of another copy of evenkeel. */
export function isResolveError(value: unknown): value is ResolveError {
  return isEvenkeelError(value) && value.name === 'ResolveError';
}

/** Any value as an Error, for causes that may be anything. */
export function asError(value: unknown): Error {
  // Not by instanceof alone: test runners and vm contexts have an Error of their own.
  if (value instanceof Error || Object.prototype.toString.call(value) === '[object Error]') return value as Error;
  return new Error(typeof value === 'string' ? value : `not an Error: ${typeof value}`, { cause: value });
}
