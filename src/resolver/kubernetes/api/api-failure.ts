import { asError, isResolveError, ResolveError } from '../../../errors.js';
import { LineError } from './line-reader.js';
import type { StatusFacts } from './status.js';

/** The kind of failure of a list or a watch, which decides what is done next. */
export type FailureKind =
  /** Status 410: the API server no longer knows the resource version that the request named, because it is too old. */
  | 'expired'
  /** The API server does not know the resource version that the request named yet, because another server is further ahead. */
  | 'too-large'
  | 'forbidden'
  | 'unauthorized'
  /** Status 404 for the whole collection: this API server has no EndpointSlices at all. */
  | 'missing'
  /** The server asks for a pause: status 429 or 503. */
  | 'throttled'
  /** The server failed: status 500 and other 5xx, or InternalError. */
  | 'internal'
  /** The server answered with any other status. */
  | 'rejected'
  /** No response came in time. */
  | 'timeout'
  /** The response was not what an API server sends. */
  | 'protocol'
  /** There was no connection to the API server, or it broke. */
  | 'network'
  /** The API server's address or the credentials are unknown. */
  | 'credentials';

/** The error of a failed list or watch, with the kind of failure. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure';
  readonly kind: FailureKind;
  /** A status or an error code. Failures with the same kind and label are reported only once. */
  readonly label: string;
  /** The pause that the server requested, in ms. */
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: FailureKind,
    label: string,
    message: string,
    more: { readonly retryAfterMs?: number | undefined; readonly cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.kind = kind;
    this.label = label;
    this.retryAfterMs = more.retryAfterMs;
  }
}

/** Converts a response with a status other than 200 to a failure. */
export function statusFailure(code: number, facts: StatusFacts, retryAfterMs: number | undefined): ApiFailure {
  return new ApiFailure(kindOfStatus(code, facts), `status ${code}`, describe(code, facts), {
    retryAfterMs: retryAfterMs ?? facts.retryAfterMs,
  });
}

/** Converts an ERROR event of a watch to a failure. */
export function eventFailure(facts: StatusFacts): ApiFailure {
  const { code, reason, retryAfterMs } = facts;
  const kind: FailureKind =
    code === 410 || reason === 'Expired' || reason === 'Gone'
      ? 'expired'
      : code === 429
        ? 'throttled'
        : code === 500 || reason === 'InternalError'
          ? 'internal'
          : 'rejected';
  return new ApiFailure(kind, `event ${code}`, describe(code, facts), { retryAfterMs });
}

function kindOfStatus(code: number, { reason, tooLarge }: StatusFacts): FailureKind {
  if (tooLarge) return 'too-large';
  if (code === 410 || reason === 'Expired' || reason === 'Gone') return 'expired';
  if (code === 401) return 'unauthorized';
  if (code === 403) return 'forbidden';
  if (code === 404) return 'missing';
  if (code === 429 || code === 503) return 'throttled';
  return code >= 500 ? 'internal' : 'rejected';
}

function describe(code: number, { reason, message }: StatusFacts): string {
  return [String(code), reason, message]
    .filter((part) => part !== '')
    .join(' ')
    .slice(0, 1_000);
}

/** Converts any error of a request to an `ApiFailure`. */
export function failureOf(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  if (isResolveError(error)) {
    return new ApiFailure('credentials', error.permanent ? 'permanent' : '', error.message, { cause: error });
  }
  if (error instanceof LineError) return new ApiFailure('protocol', 'line', error.message, { cause: error });
  const { code, name, message } = asError(error) as NodeJS.ErrnoException;
  // The label must not be the message: the message may differ each time, and then the failure would be reported each time.
  const label = code ?? name;
  return new ApiFailure('network', label, message || label, { cause: error });
}

/**
 * Converts a failure to an error with a message for the user. `verb` is the operation that failed, and `server` is the URL it was tried
 * on.
 */
export function resolveErrorOf(
  failure: ApiFailure,
  verb: 'list' | 'watch',
  namespace: string,
  server?: string,
): ResolveError {
  if (isResolveError(failure.cause)) return failure.cause;
  const what = `${verb} endpointslices.discovery.k8s.io in the namespace ${namespace}`;
  const { kind, message } = failure;
  if (kind === 'forbidden') {
    return new ResolveError(
      `the API server does not let us ${what}: ${message}. ` +
        `Bind a Role with the verbs list and watch on endpointslices to this pod's service account`,
      { code: 'EVENKEEL_FORBIDDEN', permanent: true, cause: failure },
    );
  }
  if (kind === 'missing') {
    return new ResolveError(`the API server has no endpointslices.discovery.k8s.io/v1: ${message}`, {
      permanent: true,
      cause: failure,
    });
  }
  // The other kinds of failures already name the server in their message, or came as a response from it.
  const where = kind === 'timeout' && server !== undefined ? ` at ${server}` : '';
  return new ResolveError(`could not ${what}${where}: ${message}`, { cause: failure });
}
