/** A Status object, with which the API server reports a failure. */
export interface StatusObject {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly status: 'Failure';
  readonly message: string;
  readonly reason?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly code: number;
}

const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  410: 'Expired',
  422: 'Invalid',
  429: 'TooManyRequests',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** Creates a Status. Its reason follows from the code unless one is passed; a 500 has none, as with a real API server. */
export function statusObject(
  code: number,
  message: string,
  more: { readonly reason?: string; readonly details?: Record<string, unknown>; readonly continue?: string } = {},
): StatusObject {
  const reason = more.reason ?? reasons[code];
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: more.continue === undefined ? {} : { continue: more.continue },
    status: 'Failure',
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(more.details === undefined ? {} : { details: more.details }),
    code,
  };
}

/** Creates the Status "too old": the requested history is gone. */
export function expiredStatus(wanted: number, oldest: number): StatusObject {
  return statusObject(410, `too old resource version: ${wanted} (${oldest})`);
}

/** Creates the Status "too new": the store does not know the requested version yet. */
export function tooLargeStatus(wanted: number, current: number): StatusObject {
  return statusObject(504, `Timeout: Too large resource version: ${wanted}, current: ${current}`, {
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
  });
}
