import { isObject, textOf } from './unchecked.js';

/** The relevant parts of a Kubernetes Status. */
export interface StatusFacts {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  /** Whether a cause in the Status says that the requested version does not exist yet. */
  readonly tooLarge: boolean;
  readonly retryAfterMs: number | undefined;
}

/** Reads a Status object; anything else counts as one without facts. */
export function parseStatus(value: unknown): StatusFacts {
  const status = isObject(value) ? value : {};
  const details = isObject(status.details) ? status.details : {};
  const causes = Array.isArray(details.causes) ? (details.causes as readonly unknown[]) : [];
  const seconds = details.retryAfterSeconds;
  return {
    code: typeof status.code === 'number' ? status.code : 0,
    reason: textOf(status.reason) ?? '',
    message: textOf(status.message) ?? '',
    tooLarge: causes.some((cause) => isObject(cause) && cause.reason === 'ResourceVersionTooLarge'),
    retryAfterMs: typeof seconds === 'number' && seconds > 0 ? Math.min(seconds, 600) * 1_000 : undefined,
  };
}
